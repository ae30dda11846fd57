"""An environment whose episodes do not come out the same twice."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Forgetful(gym.Wrapper[Any, Any, Any, Any]):
    """Its observations are drawn from a stream that no seed reaches."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._random = np.random.default_rng()

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        return observation + self._random.random(observation.shape).astype(np.float32), *rest
