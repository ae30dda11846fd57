"""What every data transformer is: the same change of the data at rollout, in evaluation and at replay."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

import torch
from torch import nn

from alfish.types import Experience, Nest, TimeStep, replace


class Tier(IntEnum):
    """Where a transformer may stand; tiers come in this order, since replay holds what the environments gave."""

    RAW = 0  # keeps the raw time step
    READS_REPLAY = 1  # combines a time step with others that are stored, and these are raw
    OTHER = 2


class StoredExperience(Protocol):
    """What transformers may read of a replay buffer. Environments and positions have any shape, but the same."""

    def get_field(self, path: str, env_ids: torch.Tensor, positions: torch.Tensor) -> Nest:
        """A part of the stored time steps, e.g. `observation.camera`."""

    def episode_begin(self, env_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Where the episode of a time step begins, or the oldest stored time step when that was overwritten."""

    def episode_end(self, env_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Where the episode of a time step ends, or the newest stored time step while it goes on."""


class DataTransformer(nn.Module):
    """Changes time steps on their way from the environments to the networks.

    Replay stores raw data, and its sequences are transformed when they are drawn: with equal statistics the result
    is that of the rollout, bit for bit. Statistics are buffers, so they are in the checkpoint; they follow the data
    of the rollout while the module is in training mode, and rest in evaluation and play.

    A transformer that treats every time step by itself overrides `transform`; others override the two methods that
    call it. This one changes nothing.

    Args:
        observation_spec: of what comes in.
        transformed_observation_spec: of what goes out; None: the same.
        state_spec: of what is carried from step to step while acting; () for nothing. Zeros at the start.
    """

    tier = Tier.OTHER
    num_earlier_steps = 0  # stored time steps that must precede a sequence drawn from replay

    def __init__(
        self, observation_spec: Nest, transformed_observation_spec: Nest | None = None, state_spec: Nest = ()
    ) -> None:
        super().__init__()
        unchanged = transformed_observation_spec is None
        self.observation_spec = observation_spec
        self.transformed_observation_spec = observation_spec if unchanged else transformed_observation_spec
        self.state_spec = state_spec
        self.generator = torch.Generator().manual_seed(0)

    def attach(self, generator: torch.Generator) -> None:
        """Gives the run's random stream to this transformer and all below it."""
        for module in self.modules():
            if isinstance(module, DataTransformer):
                module.generator = generator

    def check_use(self, on_policy: bool, sequence_length: int) -> None:
        """Raises a ConfigError when this transformer cannot serve such an algorithm.

        Args:
            on_policy: it learns from what was transformed at rollout, never from replay.
            sequence_length: time steps of the sequences drawn from replay.
        """

    def transform_timestep(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """What the networks see of a `[B, ...]` time step in rollout and evaluation, and the state after it."""
        return self.transform(time_step), state

    def transform_experience(self, experience: Experience, replay: StoredExperience) -> Experience:
        """What the networks see of sequences drawn from replay, `[T + 1, B, ...]` time steps."""
        time_step = self.transform(experience.time_step)
        return experience if time_step is experience.time_step else replace(experience, time_step=time_step)

    def transform(self, time_step: TimeStep) -> TimeStep:
        """The change of time steps with any leading dimensions."""
        return time_step
