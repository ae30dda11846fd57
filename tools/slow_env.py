"""An environment that takes its time. A module of its own, so that worker processes can import it."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym

import alfish


@alfish.configurable
class SleepingEnv(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose steps take longer, as those of a simulator or a robot do.

    Args:
        env: the environment.
        seconds: that every step takes in addition.
    """

    def __init__(self, env: gym.Env[Any, Any], seconds: float = 0.002) -> None:
        super().__init__(env)
        self._seconds = seconds

    def step(self, action: Any) -> Any:
        time.sleep(self._seconds)
        return self.env.step(action)
