"""Environments in this process, one after the other: the fastest way for cheap ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from alfish.environments.adapted import AdaptedEnvironment
from alfish.environments.conversion import Array
from alfish.environments.episodes import SeededEpisodes, fault
from alfish.errors import EnvironmentFault
from alfish.types import Nest, StepType, TimeStep


class SyncEnvironment(AdaptedEnvironment):
    """A loop over single environments that writes into one array per leaf."""

    exact_resume = True

    def __init__(self, envs: Sequence[SeededEpisodes], clip_actions: bool = True) -> None:
        """
        Args:
            envs: one per row, with the indices 0, 1, ...; all with the same spaces.
            clip_actions: clip continuous actions to their bounds before the environment gets them.
        """
        one = envs[0]
        super().__init__(
            name=one.name,
            batch_size=len(envs),
            observation_space=one.observation_space,
            action_space=one.action_space,
            reward_shape=one.reward_shape,
            info_keys=one.info_keys,
            clip_actions=clip_actions,
        )
        self._envs = list(envs)
        # Straight to the wrapped environment: `SeededEpisodes.step` is only for process boundaries.
        self._steps = [env.env.step for env in envs]
        self._is_over = [True] * self.batch_size
        self._elapsed = np.zeros(self.batch_size, np.int64)
        # What most steps look like; copied at every step.
        self._mid = np.full(self.batch_size, StepType.MID, np.int32)
        self._no_reward = np.zeros((self.batch_size, *self.reward_spec.shape), np.float32)
        self._no_discount = np.ones(self.batch_size, np.float32)

    def reset(self, seed: int | None = None) -> TimeStep:
        seed = self._root_seed(seed)
        arrays = self._observations.arrays()
        infos = self._info.empty()
        for index in range(self.batch_size):
            self._reset_one(index, seed, arrays, infos)
        return self._first_time_step(self._observations.tensors(arrays), infos)

    def step(self, action: Nest) -> TimeStep:
        stored = self._actions.stored(action)
        step_type = self._mid.copy()
        reward = self._no_reward.copy()
        discount = self._no_discount.copy()
        arrays = self._observations.arrays()
        infos = self._info.empty()
        first = []
        write, is_over = self._observations.write, self._is_over
        self._elapsed += 1
        for index, (step, one_action) in enumerate(zip(self._steps, self._actions.each(stored), strict=True)):
            if is_over[index]:
                self._reset_one(index, None, arrays, infos)
                step_type[index] = StepType.FIRST
                first.append(index)
                continue
            try:
                observation, one_reward, terminated, truncated, info = step(one_action)
            except Exception as error:
                when = self._envs[index].when(int(self._elapsed[index]), one_action)
                raise fault(self.name, index, when, error) from error
            try:
                reward[index] = one_reward
                write(arrays, index, observation)
            except (TypeError, ValueError, KeyError, IndexError) as error:
                raise self._misfit(index, observation, one_reward) from error
            if infos:
                self._info.write(infos, index, info)
            if terminated or truncated:
                is_over[index] = True
                step_type[index] = StepType.LAST
                if terminated:
                    discount[index] = 0.0
        return TimeStep(
            step_type=torch.from_numpy(step_type),
            reward=torch.from_numpy(reward),
            discount=torch.from_numpy(discount),
            observation=self._observations.tensors(arrays),
            prev_action=self._actions.prev_action(stored, first),
            env_id=self._env_id,
            env_info=self._info.tensors(infos),
        )

    def render(self) -> Array | None:
        frame = None if self._envs[0].render_mode is None else self._envs[0].render()
        return frame if isinstance(frame, np.ndarray) else None

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _reset_one(self, index: int, seed: int | None, arrays: list[Array], infos: dict[str, Array]) -> None:
        observation, info = self._envs[index].reset(seed=seed)
        # Steps are not checked this closely: numpy refuses most misfits, and would only broadcast a shape like (1,).
        if self._observations.misfit(observation):
            raise self._misfit(index, observation, 0.0)
        self._observations.write(arrays, index, observation)
        self._info.write(infos, index, info)
        self._is_over[index] = False
        self._elapsed[index] = 0

    def _misfit(self, index: int, observation: Any, reward: Any) -> EnvironmentFault:
        where = f"{self.name}: environment {index} returned"
        problem = self._observations.misfit(observation)
        if problem:
            return EnvironmentFault(f"{where} an observation that does not fit: {problem}")
        if np.shape(reward) != self.reward_spec.shape:
            return EnvironmentFault(
                f"{where} a reward of shape {np.shape(reward)}, expected {self.reward_spec.shape}. A vector reward is "
                "declared by the environment's attribute reward_space, a Box of shape (R,)."
            )
        return EnvironmentFault(f"{where} values that are no numbers: reward {reward!r}, observation {observation!r}")
