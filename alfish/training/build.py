"""Building the parts of a run from its configuration."""

from __future__ import annotations

import logging

import torch

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.transformers.sequential import make_data_transformer
from alfish.config.problems import ConfigProblems, Problem
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.seeding import Seeds

_log = logging.getLogger(__name__)


def build_algorithm(config: TrainerConfig, env: Environment, seeds: Seeds) -> RLAlgorithm:
    """The algorithm of a run, on its device, with parameters drawn from the run's own stream."""
    assert config.algorithm_ctor is not None  # TrainerConfig refuses None
    device = _device(config)
    with seeds.fork_torch("init"):
        transformer = make_data_transformer(config.data_transformer_ctor, env.observation_spec)
        algorithm = config.algorithm_ctor(
            observation_spec=transformer.transformed_observation_spec,
            action_spec=env.action_spec,
            reward_spec=env.reward_spec,
            env=env,
            config=config,
            debug_summaries=config.debug_summaries,
        )
    if not isinstance(algorithm, RLAlgorithm):
        made = type(algorithm).__name__
        message = f"made a {made}, which is not an RLAlgorithm and cannot drive a run"
        raise ConfigProblems([Problem(("TrainerConfig.algorithm_ctor",), message)])
    algorithm.data_transformer = transformer
    _refuse_idle_options(algorithm, config)
    _choose_train_step(algorithm, config.temporally_independent_train_step)
    return algorithm.to(device)


def _device(config: TrainerConfig) -> torch.device:
    try:
        device = torch.device(config.device)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigProblems(
            [Problem(("TrainerConfig.device",), f"{config.device!r} cannot be used here: {error}. Try 'cpu'")]
        ) from error
    return device


def _refuse_idle_options(algorithm: RLAlgorithm, config: TrainerConfig) -> None:
    name = type(algorithm).__name__
    problems = [
        Problem((f"TrainerConfig.{option}",), f"has no effect on {name}: {reason}. Remove it")
        for option, reason in algorithm.idle_options.items()
        if option in config.non_default()
    ]
    if problems:
        raise ConfigProblems(problems)


def warn_of_idle_options(algorithm: RLAlgorithm, config: TrainerConfig) -> None:
    """Of those that were set and change nothing; those that a user may take to change results are refused."""
    idle = config.idle_options()
    if config.use_rollout_state and algorithm.train_state_spec == ():
        idle[f"{type(algorithm).__name__} has no memory"] = ["use_rollout_state"]
    for reason, names in idle.items():
        listed = ", ".join(f"TrainerConfig.{name}" for name in names)
        _log.warning("%s: no effect, since %s", listed, reason)


def _choose_train_step(algorithm: RLAlgorithm, independent: bool | None) -> None:
    if independent and algorithm.train_state_spec != ():
        raise ConfigError(
            f"TrainerConfig.temporally_independent_train_step = True: {type(algorithm).__name__} has memory, so the "
            "steps of a sequence depend on each other. Use None or False."
        )
    for part in algorithm.tree():
        part.stepwise_training = independent is False
