"""An environment that tells which process it was built in."""

from __future__ import annotations

import os
from pathlib import Path

import gymnasium

from alfish.config.registry import configurable
from alfish.environments.unittest_envs import PolicyUnittestEnv


@configurable
class BuiltEnv(PolicyUnittestEnv):
    """Writes the process into `built.txt`.

    Args:
        bonus: to have something that is configured.
    """

    def __init__(self, bonus: float = 0.0) -> None:
        super().__init__()
        self._bonus = bonus
        with Path("built.txt").open("a") as file:
            file.write(f"{os.getpid()}\n")


gymnasium.register("tests/Built-v0", BuiltEnv)
