"""Every episode has its own seed, and what an environment raises becomes text. Runs in workers: imports no torch."""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from alfish.errors import EnvironmentFault

# Where a vector reward travels when the vector environment only knows scalar ones.
VECTOR_REWARD = "alfish_vector_reward"

_EPISODE = zlib.crc32(b"episode")


def episode_seed(root: int, index: int, number: int) -> int:
    """The seed of episode `number` of environment `index`: `Seeds(root).integer("episode", index, number)`."""
    sequence = np.random.SeedSequence(root, spawn_key=(_EPISODE, index, number))
    return int(sequence.generate_state(1)[0] >> 1)


def fault(name: str, index: int, when: str, error: Exception) -> EnvironmentFault:
    """An error of the environment's own code, as text: exceptions of strangers do not always survive a pickle."""
    message = str(error).strip()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return EnvironmentFault(
        f"{name}: environment {index} raised {type(error).__name__}{': ' if message else ''}{message}\n"
        f"  {when}, at {frame.filename}:{frame.lineno} in {frame.name}"
    )


class SeededEpisodes(gym.Wrapper[Any, Any, Any, Any]):
    """The outermost wrapper of every single environment.

    `reset(seed=root)` starts episode 0 of that root; `reset()` starts the next one.
    """

    def __init__(self, env: gym.Env[Any, Any], name: str, index: int, info_keys: Sequence[str] = ()) -> None:
        super().__init__(env)
        self.name = name
        self.index = index
        self.info_keys = tuple(info_keys)
        self.episode = -1
        self._root: int | None = None
        self._steps = 0
        self.reward_shape = _reward_shape(env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._root, self.episode = seed, -1
        if self._root is None:
            raise ValueError("the first reset needs a seed")
        self.episode += 1
        self._steps = 0
        try:
            observation, info = self.env.reset(seed=episode_seed(self._root, self.index, self.episode), options=options)
        except Exception as error:
            raise fault(self.name, self.index, f"in the reset of episode {self.episode}", error) from error
        return observation, self._chosen(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Used behind a process boundary: what is not needed on the other side is left out of `info`."""
        self._steps += 1
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            raise fault(self.name, self.index, self.when(self._steps, action), error) from error
        info = self._chosen(info)
        if self.reward_shape:
            info[VECTOR_REWARD] = np.asarray(reward, np.float32)
            reward = 0.0
        return observation, reward, terminated, truncated, info

    def when(self, step: int, action: Any) -> str:
        return f"in step {step} of episode {self.episode}, action {action}"

    def operative_keys(self) -> Any:
        """What this process used of the gin config, for the parent's report."""
        from alfish.config import carry

        return carry.operative_keys()

    def _chosen(self, info: dict[str, Any]) -> dict[str, Any]:
        return {key: info[key] for key in self.info_keys if key in info}


def _reward_shape(env: gym.Env[Any, Any]) -> tuple[int, ...]:
    """`(R,)` when the environment declares a `reward_space` (as mo-gymnasium's do), else `()`."""
    space = env.get_wrapper_attr("reward_space") if env.has_wrapper_attr("reward_space") else None
    return () if space is None else tuple(space.shape)
