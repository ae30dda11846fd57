"""Toy environments with known optima, to test a learning algorithm in seconds.

    create_environment.env_name = "alfish/PolicyUnittest-v0"
    create_environment.num_parallel_environments = 100
    PolicyUnittestEnv.reward_dim = 3

With `reward_dim` above 1 every component of the reward is the same. Imports no torch.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np

from alfish.config.ranges import Range
from alfish.config.registry import configurable

Step = tuple[Any, Any, bool, bool, dict[str, Any]]

_ZERO_OR_ONE = gym.spaces.Box(0.0, 1.0, (1,), np.float32)


class _FixedLengthEnv(gym.Env[Any, Any]):
    """An episode of `episode_length` steps that ends for real; the observation is drawn anew at every step."""

    def __init__(self, episode_length: int, reward_dim: int) -> None:
        self._length = episode_length
        self._elapsed = 0
        self._reward_dim = reward_dim
        if reward_dim > 1:
            self.reward_space = gym.spaces.Box(-np.inf, np.inf, (reward_dim,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._elapsed = 0
        return self._observe(), {}

    def step(self, action: Any) -> Step:
        reward = self._reward(action)
        self._elapsed += 1
        vector = np.full(self._reward_dim, reward, np.float32) if self._reward_dim > 1 else reward
        return self._observe(), vector, self._elapsed >= self._length, False, {}

    def _observe(self) -> Any:
        raise NotImplementedError

    def _reward(self, action: Any) -> float:
        raise NotImplementedError


@configurable
class PolicyUnittestEnv(_FixedLengthEnv):
    """The best action is the observation, 0 or 1: reward 1 - |action - observation|.

    Optimum: 1 per step. A random policy gets 0.5.
    """

    def __init__(
        self,
        episode_length: Annotated[int, Range(min=1)] = 5,
        action_type: Literal["discrete", "continuous"] = "discrete",
        reward_dim: Annotated[int, Range(min=1)] = 1,
    ) -> None:
        """
        Args:
            episode_length: steps until the episode ends.
            action_type: 'discrete' takes 0 or 1, 'continuous' a number from 0 to 1.
            reward_dim: length of the reward vector; 1: a scalar.
        """
        super().__init__(episode_length, reward_dim)
        self.observation_space = _ZERO_OR_ONE
        self.action_space = gym.spaces.Discrete(2) if action_type == "discrete" else _ZERO_OR_ONE
        self._shown = 0

    def _observe(self) -> Any:
        self._shown = int(self.np_random.integers(2))
        return np.array([self._shown], np.float32)

    def _reward(self, action: Any) -> float:
        return 1.0 - abs(float(np.asarray(action).item()) - self._shown)


@configurable
class ValueUnittestEnv(_FixedLengthEnv):
    """Reward 1 at every step, whatever the action; the observation is the number of steps left.

    The value of a state is, without discount, its observation.
    """

    def __init__(
        self,
        episode_length: Annotated[int, Range(min=1)] = 5,
        reward_dim: Annotated[int, Range(min=1)] = 1,
    ) -> None:
        """
        Args:
            episode_length: steps until the episode ends.
            reward_dim: length of the reward vector; 1: a scalar.
        """
        super().__init__(episode_length, reward_dim)
        self.observation_space = gym.spaces.Box(0.0, float(episode_length), (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def _observe(self) -> Any:
        return np.array([self._length - self._elapsed], np.float32)

    def _reward(self, action: Any) -> float:
        return 1.0


@configurable
class MixedPolicyUnittestEnv(_FixedLengthEnv):
    """An action of two parts, discrete d and continuous c from 0 to 1: reward 1 when d == (c > 0.5), else 0.

    Optimum: 1 per step.
    """

    def __init__(
        self,
        episode_length: Annotated[int, Range(min=1)] = 5,
        reward_dim: Annotated[int, Range(min=1)] = 1,
    ) -> None:
        """
        Args:
            episode_length: steps until the episode ends.
            reward_dim: length of the reward vector; 1: a scalar.
        """
        super().__init__(episode_length, reward_dim)
        self.observation_space = _ZERO_OR_ONE
        self.action_space = gym.spaces.Tuple((gym.spaces.Discrete(2), _ZERO_OR_ONE))

    def _observe(self) -> Any:
        return np.array([self.np_random.integers(2)], np.float32)

    def _reward(self, action: Any) -> float:
        discrete, continuous = action
        return float(int(discrete) == int(continuous.item() > 0.5))


@configurable
class RNNPolicyUnittestEnv(_FixedLengthEnv):
    """+1 or -1 is shown at the first step only; afterwards the observation is 0.

    From step `gap` on (the first action is step 0) the reward is 1 for action 1 when +1 was shown and for action 0
    when -1 was shown, else 0. Optimum with a memory: 1 per rewarded step; without: 0.5.
    """

    def __init__(
        self,
        episode_length: Annotated[int, Range(min=1)] = 5,
        gap: Annotated[int, Range(min=0)] = 3,
        reward_dim: Annotated[int, Range(min=1)] = 1,
    ) -> None:
        """
        Args:
            episode_length: steps until the episode ends; more than `gap`.
            gap: number of steps without reward.
            reward_dim: length of the reward vector; 1: a scalar.
        """
        super().__init__(episode_length, reward_dim)
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._gap = gap
        self._shown = 1

    def _observe(self) -> Any:
        if self._elapsed > 0:
            return np.zeros(1, np.float32)
        self._shown = int(self.np_random.integers(2)) * 2 - 1
        return np.array([self._shown], np.float32)

    def _reward(self, action: Any) -> float:
        return float(self._elapsed >= self._gap and int(action) * 2 - 1 == self._shown)


@configurable
class ThreeArmedBanditEnv(_FixedLengthEnv):
    """Rewards 0.5, 1 and -1 for the three actions; the episode ends with probability 0.2 at every step.

    Optimum: always action 1.
    """

    def __init__(
        self,
        end_probability: Annotated[float, Range(min=0, max=1)] = 0.2,
        reward_dim: Annotated[int, Range(min=1)] = 1,
    ) -> None:
        """
        Args:
            end_probability: of each step to be the last.
            reward_dim: length of the reward vector; 1: a scalar.
        """
        super().__init__(1, reward_dim)
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self._end_probability = end_probability

    def step(self, action: Any) -> Step:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, bool(self.np_random.random() < self._end_probability), False, info

    def _observe(self) -> Any:
        return self.np_random.standard_normal(2).clip(-1, 1).astype(np.float32)

    def _reward(self, action: Any) -> float:
        return (0.5, 1.0, -1.0)[int(action)]
