"""Recorded data of toy environments, and offline runs without a trainer."""

from __future__ import annotations

from typing import Any

from alfish.environments.create import create_environment
from alfish.replay.tape import Tape
from alfish.seeding import Seeds
from alfish.training.recording import Amount, Policy, record
from tests.algorithms.off_policy_runs import start_replay

POLICY = "alfish/PolicyUnittest-v0"


def random_tape(env_name: str = POLICY, num_steps: int = 100, seed: int = 0, **env_kwargs: Any) -> Tape:
    """What uniform random actions lead to."""
    env = create_environment(env_name, num_parallel_environments=4, env_kwargs=env_kwargs or None)
    with env:
        return record(env, Policy(env, None, 1.0, Seeds(seed)), Amount(num_steps=num_steps), seed)


def start_offline(
    cls: Any, tape: Tape | None, env_name: str = POLICY, options: dict[str, Any] | None = None, **arguments: Any
) -> Any:
    """An algorithm with recorded data, ready for `train_iter`; the arguments are those of `start_replay`."""
    recorded = {"replay_buffer_length": 200, "offline_buffer_dir": "somewhere"}
    return start_replay(cls, env_name, options={**recorded, **(options or {})}, tape=tape, **arguments)
