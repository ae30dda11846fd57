"""Probes: environments so small that the exact values are known, each of which breaks one part of an algorithm.

Work through them in this order: a constant reward (is the value learned at all, and does a time limit bootstrap?), a
reward told by the observation, a delayed reward (is the discount right?), a reward told by the action, and one told
by both. Ids: `alfish/ConstantRewardProbe-v0` and so on. Imports no torch.
"""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium as gym
import numpy as np

from alfish.config.ranges import Range
from alfish.config.registry import configurable

Step = tuple[Any, Any, bool, bool, dict[str, Any]]


class _Probe(gym.Env[Any, Any]):
    """Discrete(2) actions, one number as observation."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._start(), {}

    def _start(self) -> Any:
        return np.zeros(1, np.float32)


@configurable
class ConstantRewardProbe(_Probe):
    """A constant reward r and always the same observation, so that there is one value to learn.

    With a time limit (`truncates`) the world goes on, and the value is r / (1 - discount) whatever the length.
    With a real end after every `episode_length` = 1 step it is r; in general, the mean of the values of the steps.
    """

    def __init__(
        self,
        reward: float = 1.0,
        episode_length: Annotated[int, Range(min=1)] = 1,
        truncates: bool = False,
    ) -> None:
        """
        Args:
            reward: of every step.
            episode_length: steps of an episode.
            truncates: whether the episode is cut off (a time limit) instead of ending.
        """
        super().__init__()
        self._reward = reward
        self._length = episode_length
        self._truncates = truncates
        self._elapsed = 0

    def _start(self) -> Any:
        self._elapsed = 0
        return super()._start()

    def step(self, action: Any) -> Step:
        self._elapsed += 1
        is_over = self._elapsed >= self._length
        observation = np.zeros(1, np.float32)
        return observation, self._reward, is_over and not self._truncates, is_over and self._truncates, {}


@configurable
class ObservationRewardProbe(_Probe):
    """One step; the observation is +1 or -1, and so is the reward: the value equals the observation."""

    def _start(self) -> Any:
        self._shown = float(self.np_random.integers(2) * 2 - 1)
        return np.array([self._shown], np.float32)

    def step(self, action: Any) -> Step:
        return np.array([self._shown], np.float32), self._shown, True, False, {}


@configurable
class DelayedRewardProbe(_Probe):
    """Two steps: observation 0, reward 0, then observation 1, reward 1 and the end.

    The value is 1 where 1 is observed, and the discount where 0 is observed.
    """

    def _start(self) -> Any:
        self._elapsed = 0
        return super()._start()

    def step(self, action: Any) -> Step:
        self._elapsed += 1
        return np.ones(1, np.float32), float(self._elapsed == 2), self._elapsed == 2, False, {}


@configurable
class ActionRewardProbe(_Probe):
    """One step; action 1 gives +1, action 0 gives -1. The value of the best policy is 1."""

    def step(self, action: Any) -> Step:
        return np.zeros(1, np.float32), 1.0 if action == 1 else -1.0, True, False, {}


@configurable
class MatchingProbe(_Probe):
    """One step; +1 when the action (0 or 1) tells the sign of the observation (-1 or +1), else -1."""

    def _start(self) -> Any:
        self._shown = int(self.np_random.integers(2))
        return np.array([self._shown * 2 - 1], np.float32)

    def step(self, action: Any) -> Step:
        reward = 1.0 if int(action) == self._shown else -1.0
        return np.array([self._shown * 2 - 1], np.float32), reward, True, False, {}
