"""One adapter from vector environments to time steps: native vector forms of Gymnasium, envpool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from alfish.environments.adapted import AdaptedEnvironment
from alfish.environments.faults import returned
from alfish.environments.loading import find_spec
from alfish.environments.quick_spaces import quick
from alfish.environments.spaces import Array
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
        info_keys: Sequence[str] = (),
        clip_actions: bool = True,
    ) -> None:
        """
        Args:
            vector: the vector environment; closed with this one.
            name: for messages.
            info_keys: numeric fields of `info` that become `TimeStep.env_info`.
            clip_actions: clip continuous actions to their bounds before the environment gets them.
        """
        super().__init__(
            name=name,
            batch_size=vector.num_envs,
            observation_space=vector.single_observation_space,
            action_space=vector.single_action_space,
            info_keys=info_keys,
            clip_actions=clip_actions,
        )
        self._vector = vector
        self._is_over = np.zeros(self.batch_size, np.bool_)
        self._over = self._is_over.nonzero()[0]  # rows
        self._is_closed = False

    def reset(self, seed: int | None = None) -> TimeStep:
        memory = self._memory.take()
        try:
            observation, infos = self._vector.reset(seed=self._root_seed(seed))
            self._observations.write_batch(memory.observation, observation)
        except EnvironmentFault:
            raise
        except Exception as error:
            raise self._fault("reset", error) from error
        self._over = self._over[:0]
        if memory.infos:
            self._info.write_batch(memory.infos, infos)
        problems = self._not_finite(memory)
        if problems:
            raise self._first_of(problems, "a reset")
        return self._first(memory)

    def step(self, action: Nest) -> TimeStep:
        memory = self._memory.take()
        self._actions.store(action, memory.prev_action)
        given = self._actions.batch(memory.prev_action)
        try:
            observation, reward, terminated, truncated, infos = self._vector.step(given)
            self._observations.write_batch(memory.observation, observation)
        except EnvironmentFault:
            raise
        except Exception as error:
            raise self._fault("step", error) from error
        memory.reward[...] = reward
        first, self._over = self._over, np.logical_or(terminated, truncated, self._is_over).nonzero()[0]
        if self._over.size:
            memory.step_type[self._over] = StepType.LAST
            memory.discount[terminated.nonzero()] = 0.0
        if first.size:
            self._begin_rows(first, memory)
        if memory.infos:
            self._info.write_batch(memory.infos, infos)
        problems = self._not_finite(memory)
        if problems:
            raise self._first_of(problems, "a step")
        return memory.time_step

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

    def _first_of(self, problems: Mapping[int, str], doing: str) -> EnvironmentFault:
        index, what = next(iter(problems.items()))
        return returned(self.name, index, f"in {doing}", what)


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
    vector.unwrapped.action_space = quick(vector.unwrapped.action_space)
    return vector
