"""Building the parts of a run from its configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from alfish import config as gin_config
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.supervised.dataset import Dataset
from alfish.algorithms.supervised.supervised_algorithm import SupervisedAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.transformers.sequential import make_data_transformer
from alfish.config.problems import ConfigProblems, Problem
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.seeding import Seeds

_log = logging.getLogger(__name__)


def bound_options() -> TrainerConfig:
    """The options as gin has them, and which config they were read from."""
    config = gin_config.current()
    if config is None:
        return TrainerConfig()
    if config.binding("TrainerConfig.conf_file") is not None:
        message = "is filled in by the commands: --gin_file names the config. Remove the line"
        raise ConfigProblems([Problem(("TrainerConfig.conf_file",), message)])
    return TrainerConfig(conf_file=config.sources[0].path if config.sources else "")


def build_algorithm(config: TrainerConfig, env: Environment, seeds: Seeds) -> RLAlgorithm:
    """The algorithm of a run, on its device, with parameters drawn from the run's own stream."""
    assert config.algorithm_ctor is not None  # TrainerConfig refuses None
    _refuse_other_kind(config.algorithm_ctor, SupervisedAlgorithm, "learns from data: set TrainerConfig.ml_type = 'sl'")
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


def build_supervised_algorithm(config: TrainerConfig, dataset: Dataset, seeds: Seeds) -> SupervisedAlgorithm:
    """The algorithm of a run over data, on its device, with parameters drawn from the run's own stream."""
    assert config.algorithm_ctor is not None  # TrainerConfig refuses None
    _refuse_other_kind(config.algorithm_ctor, RLAlgorithm, "learns in environments: leave TrainerConfig.ml_type out")
    device = _device(config)
    with seeds.fork_torch("init"):
        algorithm = config.algorithm_ctor(dataset=dataset, config=config, debug_summaries=config.debug_summaries)
    kind = type(algorithm)
    problems = []
    if not isinstance(algorithm, SupervisedAlgorithm):
        message = f"made a {kind.__name__}, which is no SupervisedAlgorithm, as TrainerConfig.ml_type = 'sl' needs"
        problems.append(Problem(("TrainerConfig.algorithm_ctor",), message))
    elif config.eval_uncertainty and kind.eval_uncertainty is SupervisedAlgorithm.eval_uncertainty:
        message = f"{kind.__name__} has no eval_uncertainty: it does not know how sure it is. Leave the option out"
        problems.append(Problem(("TrainerConfig.eval_uncertainty",), message))
    elif config.eval_uncertainty and dataset.outliers is None:
        message = f"needs data of another distribution, but {dataset.name} has no outliers. Leave the option out"
        problems.append(Problem(("TrainerConfig.eval_uncertainty",), message))
    if problems:
        raise ConfigProblems(problems)
    supervised: SupervisedAlgorithm = algorithm.to(device)
    return supervised


def _refuse_other_kind(algorithm_ctor: Callable[..., Any], kind: type, words: str) -> None:
    """It is called with other arguments than that kind of algorithm has, so it is better not called at all."""
    if isinstance(algorithm_ctor, type) and issubclass(algorithm_ctor, kind):
        places = ("TrainerConfig.algorithm_ctor", "TrainerConfig.ml_type")
        raise ConfigProblems([Problem(places, f"{algorithm_ctor.__name__} {words}")])


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
    if algorithm.on_policy and "replay_buffer_length" in config.non_default():
        idle[f"{type(algorithm).__name__} is on-policy and has no replay"] = ["replay_buffer_length"]
    if config.summarize_action_distributions and not algorithm.has_action_distribution:
        idle[f"{type(algorithm).__name__} has no distribution of actions"] = ["summarize_action_distributions"]
    if config.reward_reduction is not None and algorithm.reward_spec.shape == ():
        idle["the reward is one number already"] = ["reward_reduction"]
    warn_of_idle(idle)


def warn_of_idle(idle: Mapping[str, Sequence[str]]) -> None:
    """`idle` are names of options, by the reason why they change nothing."""
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
