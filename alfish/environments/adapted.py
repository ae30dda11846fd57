"""What the adapters of Gymnasium's environments share: specs, conversions, and the first time step."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import torch

from alfish.environments.conversion import Actions, Array, EnvInfo, Observations
from alfish.environments.environment import Environment
from alfish.specs import TensorSpec
from alfish.types import Nest, StepType, TimeStep


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
        self._env_id = torch.arange(batch_size)
        self._is_seeded = False

    def _root_seed(self, seed: int | None) -> int | None:
        """The seed to reset with: at first one that nobody chose, unless the caller did."""
        if seed is None and not self._is_seeded:
            seed = secrets.randbits(31)
        self._is_seeded = True
        return seed

    def _first_time_step(self, observation: Nest, infos: dict[str, Array]) -> TimeStep:
        return TimeStep(
            step_type=torch.full((self.batch_size,), StepType.FIRST, dtype=torch.int32),
            reward=self.reward_spec.zeros(self.batch_size),
            discount=torch.ones(self.batch_size),
            observation=observation,
            prev_action=self._actions.zeros(),
            env_id=self._env_id,
            env_info=self._info.tensors(infos),
        )
