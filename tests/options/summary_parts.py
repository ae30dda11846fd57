"""What a user brings along: environments, a logger, a function. Configs import it."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from alfish.config.registry import configurable


class CountingEpisodes(gym.Env[Any, Any]):
    """Two steps each; the n-th episode returns n."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._number = 0
        self._is_second = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._is_second = False
        self._number += 1
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        is_over, self._is_second = self._is_second, True
        return np.zeros(1, np.float32), self._number / 2, is_over, False, {}


class OneAndThree(gym.Env[Any, Any]):
    """Rewards (1, 3) and (1, -3) in turn, two of each in an episode: the return is (4, 0), whatever is done."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.reward_space = gym.spaces.Box(-9.0, 9.0, (2,), np.float32)
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._elapsed = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self._elapsed += 1
        reward = np.array([1.0, 3.0 if self._elapsed % 2 else -3.0], np.float32)
        return np.zeros(1, np.float32), reward, self._elapsed == 4, False, {}


@configurable
def difference(returns: tuple[float, ...] = ()) -> float:
    """A user's own reduction.

    Args:
        returns: of one episode.
    """
    return returns[1] - returns[0]


@configurable
class Overheard:
    """A user's own logger."""

    lines: ClassVar[list[tuple[Any, dict[str, float]]]] = []

    def __init__(self, fails: bool = False) -> None:
        """
        Args:
            fails: raise at every write.
        """
        self.fails = fails

    def write(self, moment: Any, values: Any) -> None:
        if self.fails:
            raise RuntimeError("the line is dead")
        self.lines.append((moment, dict(values)))


gym.register("CountingEpisodes-v0", CountingEpisodes)
gym.register("OneAndThree-v0", OneAndThree)
