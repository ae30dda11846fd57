"""One adapter from Gymnasium's vector environments to time steps: native vector forms, processes, envpool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch

from alfish.environments.adapted import AdaptedEnvironment
from alfish.environments.conversion import Array
from alfish.environments.episodes import VECTOR_REWARD
from alfish.environments.loading import find_spec
from alfish.errors import ConfigError, EnvironmentFault
from alfish.types import Nest, StepType, TimeStep


class VectorLike(Protocol):
    """What the adapter needs of a vector environment; it resets by itself in the step after an end (NEXT_STEP)."""

    num_envs: int
    render_mode: str | None
    single_observation_space: gym.Space[Any]
    single_action_space: gym.Space[Any]

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]: ...
    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]: ...
    def render(self) -> Any: ...
    def close(self) -> None: ...


class VectorEnvironment(AdaptedEnvironment):
    """Time steps of a vector environment.

    Native vector environments and envpool have one stream of random numbers for all episodes, so their
    `exact_resume` is False.
    """

    def __init__(
        self,
        vector: VectorLike,
        name: str,
        reward_shape: tuple[int, ...] = (),
        info_keys: Sequence[str] = (),
        clip_actions: bool = True,
        exact_resume: bool = False,
    ) -> None:
        """
        Args:
            vector: the vector environment; closed with this one.
            name: for messages.
            reward_shape: `()`, or `(R,)` for a vector reward.
            info_keys: numeric fields of `info` that become `TimeStep.env_info`.
            clip_actions: clip continuous actions to their bounds before the environment gets them.
            exact_resume: whether every episode has its own seed.
        """
        super().__init__(
            name=name,
            batch_size=vector.num_envs,
            observation_space=vector.single_observation_space,
            action_space=vector.single_action_space,
            reward_shape=reward_shape,
            info_keys=info_keys,
            clip_actions=clip_actions,
        )
        self.exact_resume = exact_resume
        self._vector = vector
        self._is_over = np.ones(self.batch_size, np.bool_)
        self._is_closed = False

    def reset(self, seed: int | None = None) -> TimeStep:
        try:
            observation, infos = self._vector.reset(seed=self._root_seed(seed))
        except EnvironmentFault:
            raise
        except Exception as error:
            raise self._fault("reset", error) from error
        self._is_over = np.zeros(self.batch_size, np.bool_)
        return self._first_time_step(self._observations.from_batch(observation), self._info.from_batch(infos))

    def step(self, action: Nest) -> TimeStep:
        stored = self._actions.stored(action)
        try:
            observation, rewards, terminated, truncated, infos = self._vector.step(self._actions.batch(stored))
        except EnvironmentFault:
            raise
        except Exception as error:
            raise self._fault("step", error) from error
        first = self._is_over
        self._is_over = terminated | truncated
        step_type = np.add(self._is_over, StepType.MID, dtype=np.int32)  # LAST is MID + 1
        discount = (~terminated).astype(np.float32)
        reward = np.array(self._rewards(rewards, infos), np.float32)
        rows = first.nonzero()[0]
        if len(rows):
            step_type[rows] = StepType.FIRST
            reward[rows] = 0.0
        return TimeStep(
            step_type=torch.from_numpy(step_type),
            reward=torch.from_numpy(reward),
            discount=torch.from_numpy(discount),
            observation=self._observations.from_batch(observation),
            prev_action=self._actions.prev_action(stored, rows),
            env_id=self._env_id,
            env_info=self._info.tensors(self._info.from_batch(infos)),
        )

    def render(self) -> Array | None:
        frames = None if self._vector.render_mode is None else self._vector.render()
        frame = frames[0] if frames is not None and len(frames) else None
        return frame if isinstance(frame, np.ndarray) else None

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._vector.close()

    def _fault(self, doing: str, error: Exception) -> EnvironmentFault:
        return EnvironmentFault(f"{self.name}: the environments raised {type(error).__name__} in a {doing}: {error}")

    def _rewards(self, rewards: Array, infos: Mapping[str, Any]) -> Array:
        if not self.reward_spec.shape:
            return rewards
        # Absent when every environment starts an episode.
        vectors: Array = infos.get(VECTOR_REWARD, np.zeros((self.batch_size, *self.reward_spec.shape)))
        return vectors


def make_native(env_name: str, num_envs: int, options: Mapping[str, Any]) -> gym.vector.VectorEnv[Any, Any, Any]:
    """The environment's own vector form, as registered with its `vector_entry_point`."""
    vector = gym.make_vec(find_spec(env_name), num_envs=num_envs, vectorization_mode="vector_entry_point", **options)
    mode = vector.metadata.get("autoreset_mode")
    if mode is not gym.vector.AutoresetMode.NEXT_STEP:
        vector.close()
        raise ConfigError(
            f"the vector form of {env_name} resets in mode {mode}, alfish needs NEXT_STEP. Use "
            "create_environment.backend='sync', or set its mode by create_environment.env_kwargs."
        )
    return vector
