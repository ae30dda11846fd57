"""A ring of experience per environment, sampled in sequences."""

from __future__ import annotations

import torch

from alfish import nest
from alfish.errors import ConfigError
from alfish.types import BatchInfo, Experience, Nest


class ReplayBuffer:
    """Stores `[env, time, ...]`, one copy of everything; the next observation is the next row.

    A row is a time step with the action taken there. The newest time step is stored before its action is known, so
    that every transition can be sampled at once; the next `add` completes its row.

    Args:
        num_environments: rings.
        max_length: time steps kept per environment.
        generator: for sampling.
        device: where the data live.
    """

    def __init__(
        self, num_environments: int, max_length: int, generator: torch.Generator, device: torch.device | str = "cpu"
    ) -> None:
        self.num_environments = num_environments
        self.max_length = max_length
        self._generator = generator
        self._device = torch.device(device)
        self._rows: Nest = None  # [env, time, ...], made by the first add
        self._oldest = 0  # position in time; its place in the ring is the remainder by max_length
        self._newest = -1  # position of the newest time step; its action is not known yet

    @property
    def num_transitions(self) -> int:
        """Stored transitions over all environments."""
        return max(0, self._newest - self._oldest) * self.num_environments

    def add(self, experience: Experience) -> None:
        """Appends `T` actions and the time steps around them; the first time step is the newest of the last add."""
        length = experience.length
        if length >= self.max_length:
            raise ConfigError(
                f"TrainerConfig.replay_buffer_length = {self.max_length} cannot hold one unroll of {length} steps and "
                f"the time step after it: use {length + 1} or more"
            )
        rows = (experience.action, experience.rollout_info, experience.state)
        if self._rows is None:
            self._rows = nest.map(self._allocate, (experience.time_step, rows))
        start = max(self._newest, 0)
        time_steps, completed = self._rows
        self._write(time_steps, experience.time_step, start, length + 1)
        self._write(completed, rows, start, length)
        self._newest = start + length
        self._oldest = max(self._oldest, self._newest - self.max_length + 1)

    def has_sequences(self, length: int) -> bool:
        """Whether there is at least one sequence of `length` time steps to draw."""
        return self._starts(length) > 0

    def sample(self, batch_size: int, length: int) -> Experience:
        """`batch_size` sequences of `length` time steps, uniformly drawn with replacement."""
        count = self._starts(length)
        draw = torch.randint(count * self.num_environments, (batch_size,), generator=self._generator)
        return self.get(draw % self.num_environments, self._oldest + draw // self.num_environments, length)

    def all_sequences(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Environments and positions of sequences of `length` time steps that hold every action once.

        A remainder too short for a sequence is left out at the old end.
        """
        count = self._starts(length)
        starts = torch.arange(self._newest - length + 1, self._oldest - 1, 1 - length) if count else torch.arange(0)
        envs = torch.arange(self.num_environments)
        return envs.repeat(len(starts)), starts.repeat_interleave(self.num_environments)

    def get(self, env_ids: torch.Tensor, positions: torch.Tensor, length: int) -> Experience:
        """The sequences of `length` time steps that start at `positions` `[B]`, time-major."""
        times = positions + torch.arange(length).unsqueeze(1)
        rows = (env_ids * self.max_length + times % self.max_length).to(self._device)  # [length, B]
        time_steps, completed = self._rows
        action, info, state = nest.map(lambda leaf: leaf.flatten(0, 1)[rows[:-1]], completed)
        return Experience(
            time_step=nest.map(lambda leaf: leaf.flatten(0, 1)[rows], time_steps),
            action=action,
            rollout_info=info,
            state=state,
            batch_info=BatchInfo(env_ids=env_ids, positions=positions),
        )

    def clear(self) -> None:
        """Forgets everything but the newest time step."""
        self._oldest = max(self._newest, 0)

    def _starts(self, length: int) -> int:
        """How many positions of one environment can start a sequence of `length` time steps."""
        return max(0, self._newest - self._oldest + 2 - length)

    def _allocate(self, leaf: torch.Tensor) -> torch.Tensor:
        shape = (self.num_environments, self.max_length, *leaf.shape[2:])
        return torch.zeros(shape, dtype=leaf.dtype, device=self._device)

    def _write(self, store: Nest, rows: Nest, start: int, length: int) -> None:
        places = torch.arange(start, start + length, device=self._device) % self.max_length

        def write(leaf: torch.Tensor, values: torch.Tensor) -> None:
            leaf[:, places] = values.detach().transpose(0, 1).to(self._device)

        nest.map(write, store, rows)
