"""Recorded data of toy environments, and offline runs without a trainer."""

from __future__ import annotations

from typing import Any

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.create import create_environment
from alfish.optimizers.adam import Adam
from alfish.progress import Progress
from alfish.replay.tape import Tape
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.recording import Amount, Policy, record

POLICY = "alfish/PolicyUnittest-v0"


def random_tape(env_name: str = POLICY, num_steps: int = 100, seed: int = 0, **env_kwargs: Any) -> Tape:
    """What uniform random actions lead to."""
    env = create_environment(env_name, num_parallel_environments=4, env_kwargs=env_kwargs or None)
    with env:
        return record(env, Policy(env, None, 1.0, Seeds(seed)), Amount(num_steps=num_steps), seed)


def start_offline(
    cls: Any,
    tape: Tape | None,
    env_name: str = POLICY,
    env_kwargs: dict[str, Any] | None = None,
    lr: float = 1e-2,
    seed: int = 0,
    num_environments: int = 4,
    options: dict[str, Any] | None = None,
    **arguments: Any,
) -> Any:
    """An algorithm with recorded data, ready for `train_iter`."""
    defaults: dict[str, Any] = {
        "unroll_length": 1,
        "num_updates_per_train_iter": 1,
        "mini_batch_size": 64,
        "whole_replay_buffer_training": False,
        "clear_replay_buffer": False,
        "replay_buffer_length": 200,
        "offline_buffer_dir": "somewhere",
    }
    config = TrainerConfig(algorithm_ctor=cls, random_seed=seed, **{**defaults, **(options or {})})
    env = create_environment(env_name, num_parallel_environments=num_environments, env_kwargs=env_kwargs)
    if not any("optimizer" in name for name in arguments):
        arguments["optimizer"] = Adam(lr=lr)
    with Seeds(seed).fork_torch("init"):
        algorithm = cls(
            env.observation_spec,
            env.action_spec,
            env.reward_spec,
            config=config,
            debug_summaries=config.debug_summaries,
            **arguments,
        )
    algorithm.start(env, config, Seeds(seed), Progress(), Summary.disabled(), Timers(), offline=tape)
    return algorithm
