"""What the adapters of Gymnasium's environments share: specs, conversions, and the first time step."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Sequence
from math import isfinite
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from alfish import nest
from alfish.environments.action_log import ActionLog
from alfish.environments.checks import FiniteCheck, observation_names
from alfish.environments.conversion import Actions, EnvInfo, Observations
from alfish.environments.environment import Environment
from alfish.environments.spaces import Array
from alfish.environments.step_memory import StepArrays, StepMemory
from alfish.specs import TensorSpec
from alfish.types import StepType, TimeStep

# What is not finite is told by `EnvironmentFault`, with all that belongs to it.
warnings.filterwarnings("ignore", "invalid value encountered in dot", RuntimeWarning, __name__)


class AdaptedEnvironment(Environment):
    """An `Environment` over Gymnasium spaces."""

    def __init__(
        self,
        name: str,
        batch_size: int,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        reward_shape: tuple[int, ...] = (),
        info_keys: Sequence[str] = (),
        clip_actions: bool = True,
    ) -> None:
        """
        Args:
            name: for messages.
            batch_size: number of environments.
            observation_space: of one environment.
            action_space: of one environment.
            reward_shape: `()`, or `(R,)` for a vector reward.
            info_keys: numeric fields of `info` that become `TimeStep.env_info`; nan where a step has none.
            clip_actions: clip continuous actions to their bounds before the environment gets them.
        """
        self.name = name
        self.batch_size = batch_size
        self._observations = Observations(observation_space, batch_size)
        self._actions = Actions(action_space, batch_size, clip_actions)
        self._info = EnvInfo(info_keys, batch_size)
        self.observation_spec = self._observations.spec
        self.action_spec = self._actions.spec
        self.reward_spec = TensorSpec(reward_shape)
        self.env_info_spec = self._info.spec
        self._memory = StepMemory(batch_size, self.observation_spec, self.action_spec, reward_shape, self._info.keys)
        self._is_seeded = False
        names = [*observation_names(observation_space), "a reward"]
        fields = [*self._observations.fields, (reward_shape, np.dtype(np.float32))]
        self._finite = FiniteCheck(names, fields, batch_size)
        self._log = ActionLog(batch_size)

    def _root_seed(self, seed: int | None) -> int | None:
        """The seed to reset with: at first one that nobody chose, unless the caller did."""
        if seed is None and not self._is_seeded:
            seed = secrets.randbits(31)
        self._is_seeded = True
        return seed

    def _first(self, step: StepArrays) -> TimeStep:
        """All episodes begin, with observations and infos that are written already."""
        step.step_type[:] = StepType.FIRST
        for array in step.prev_action:
            array[...] = 0
        return step.time_step

    def _differing(self, observation: Sequence[Array], time_step: TimeStep, rows: Sequence[int]) -> list[int]:
        """Which of the rows do not have the observation of `time_step`."""
        pairs = zip(
            nest.leaves(self._observations.tensors(observation)), nest.leaves(time_step.observation), strict=True
        )
        equal = [
            here.flatten(1).eq(there.cpu().flatten(1)).all(1) if here.dim() > 1 else here.eq(there.cpu())
            for here, there in pairs
        ]
        is_same = torch.stack(equal).all(0).tolist()
        return [row for row in rows if not is_same[row]]

    def _not_finite(self, step: StepArrays) -> dict[int, str]:
        """What is nan or inf, by row."""
        # Zero times nan or inf is nan. One call for the batch; and it cannot overflow, as a sum could.
        if isfinite(step.numbers.dot(self._memory.zeros)):
            return {}
        return self._finite.offenders([*step.observation, step.reward])

    def _cut_off(self, rows: list[int], step: StepArrays, last_good: Sequence[Array]) -> None:
        """Ends the broken episodes of `rows` as a time limit does, with what was last seen of them.

        So learners bootstrap from a real observation, and what broke is never seen.
        """
        for array, good in zip(step.observation, last_good, strict=True):
            array[rows] = good[rows]
        step.step_type[rows] = StepType.LAST
        step.reward[rows] = 0.0
        step.discount[rows] = 1.0
        for info in step.infos.values():
            info[rows] = np.nan

    def _begin_rows(self, rows: Sequence[int] | Array, step: StepArrays) -> None:
        """Episodes begin in `rows`: no action has led there."""
        step.step_type[rows] = StepType.FIRST
        step.reward[rows] = 0.0
        for array in step.prev_action:
            array[rows] = 0
