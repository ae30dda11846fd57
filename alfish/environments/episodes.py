"""Every episode has its own seed. Runs in workers: imports no torch."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from alfish.environments.faults import raised

_EPISODE = zlib.crc32(b"episode")


def episode_seed(root: int, index: int, number: int) -> int:
    """The seed of episode `number` of environment `index`: `Seeds(root).integer("episode", index, number)`."""
    sequence = np.random.SeedSequence(root, spawn_key=(_EPISODE, index, number))
    return int(sequence.generate_state(1)[0] >> 1)


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
        self.root: int | None = None
        self.reward_shape = _reward_shape(env)

    def seek(self, root: int | None, index: int, episode: int) -> None:
        """The next `reset()` starts this episode of environment `index`."""
        self.root, self.index, self.episode = root, index, episode - 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.seek(seed, self.index, 0)
        if self.root is None:
            raise ValueError("the first reset needs a seed")
        self.episode += 1
        try:
            return self.env.reset(seed=episode_seed(self.root, self.index, self.episode), options=options)
        except Exception as error:
            raise raised(self.name, self.index, self.when(0, None), error) from error

    def when(self, step: int, action: Any) -> str:
        """The place in the stream of experience, for messages; step 0 is the reset."""
        return when(self.episode, step, action)


def when(episode: int, step: int, action: Any) -> str:
    """A place in the stream of experience, for messages; step 0 is the reset."""
    return f"in step {step} of episode {episode}, action {action}" if step else f"in the reset of episode {episode}"


def _reward_shape(env: gym.Env[Any, Any]) -> tuple[int, ...]:
    """`(R,)` when the environment declares a `reward_space` (as mo-gymnasium's do), else `()`."""
    space = env.get_wrapper_attr("reward_space") if env.has_wrapper_attr("reward_space") else None
    return () if space is None else tuple(space.shape)
