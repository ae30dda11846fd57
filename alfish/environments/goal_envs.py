"""Tasks with a goal in the observation and a reward only where it is reached. Imports no torch.

Observations are dicts of `observation`, `achieved_goal` and `desired_goal`, as in Gymnasium's goal environments; the
reward is 0 at the goal and -1 elsewhere, and reaching it does not end the episode. Ids: `alfish/PointGoal-v0`,
`alfish/BitFlipping-v0`.
"""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium as gym
import numpy as np

from alfish.config.ranges import Range
from alfish.config.registry import configurable

Array = np.ndarray[Any, Any]
Step = tuple[Any, Any, bool, bool, dict[str, Any]]


class _GoalEnv(gym.Env[Any, Any]):
    """Where the agent is, where it should be, and how long it may take."""

    def __init__(self, goal_space: gym.Space[Any], threshold: float, episode_length: int) -> None:
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = gym.spaces.Dict(dict.fromkeys(names, goal_space))
        self._threshold = threshold
        self._length = episode_length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._elapsed = 0
        self._place, self._goal = self._draw(), self._draw()
        return self._observation(), {"is_success": 0.0}

    def step(self, action: Any) -> Step:
        self._elapsed += 1
        self._place = self._move(action)
        reached = bool(np.linalg.norm(self._place - self._goal) <= self._threshold)
        reward = 0.0 if reached else -1.0
        return self._observation(), reward, False, self._elapsed >= self._length, {"is_success": float(reached)}

    def _observation(self) -> dict[str, Array]:
        place, goal = self._place, self._goal
        return {"observation": place.copy(), "achieved_goal": place.copy(), "desired_goal": goal.copy()}

    def _draw(self) -> Array:
        """A place or a goal to start with."""
        raise NotImplementedError

    def _move(self, action: Any) -> Array:
        """The place after an action, as a new array."""
        raise NotImplementedError


@configurable
class PointGoalEnv(_GoalEnv):
    """A point in the square from -1 to 1 that is to be moved to another one.

    Nearly every episode of a random policy earns the least possible, so there is nothing to learn from without
    hindsight. The best policy needs about 10 steps to the goal and stays there.
    """

    def __init__(
        self,
        threshold: Annotated[float, Range(above=0)] = 0.05,
        step_size: Annotated[float, Range(above=0)] = 0.1,
        episode_length: Annotated[int, Range(min=1)] = 30,
        num_dimensions: Annotated[int, Range(min=1)] = 2,
    ) -> None:
        """
        Args:
            threshold: the largest distance to the goal that counts as reached.
            step_size: how far an action of size 1 moves the point along each axis.
            episode_length: steps until the time limit.
            num_dimensions: of the space; 2 is a square.
        """
        space = gym.spaces.Box(-1.0, 1.0, (num_dimensions,), np.float32)
        super().__init__(space, threshold, episode_length)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (num_dimensions,), np.float32)
        self._step_size = step_size

    def _draw(self) -> Array:
        return self.np_random.uniform(-1.0, 1.0, self.action_space.shape).astype(np.float32)

    def _move(self, action: Any) -> Array:
        step = self._step_size * np.clip(np.asarray(action, np.float32), -1.0, 1.0)
        return np.clip(self._place + step, -1.0, 1.0).astype(np.float32)


@configurable
class BitFlippingEnv(_GoalEnv):
    """A row of bits, one of which is flipped per step, that is to become another row (Andrychowicz et al. 2017).

    From about 15 bits on a random policy practically never reaches the goal.
    """

    def __init__(self, num_bits: Annotated[int, Range(min=1)] = 15) -> None:
        """
        Args:
            num_bits: of the row, and steps until the time limit.
        """
        space = gym.spaces.Box(0.0, 1.0, (num_bits,), np.float32)
        super().__init__(space, threshold=0.0, episode_length=num_bits)
        self.action_space = gym.spaces.Discrete(num_bits)

    def _draw(self) -> Array:
        return self.np_random.integers(2, size=self._length).astype(np.float32)

    def _move(self, action: Any) -> Array:
        place = self._place.copy()
        place[int(action)] = 1.0 - place[int(action)]
        return place
