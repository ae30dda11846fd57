"""A ring of experience per environment, sampled in sequences."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from alfish import nest
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.replay.episode_bounds import EpisodeBounds
from alfish.replay.experience_storage import ExperienceStorage
from alfish.replay.extent import Extent, Integers, spans
from alfish.replay.prioritized_sampler import PRIORITY_NBYTES, PrioritizedSampler, importance_weights
from alfish.replay.redistribution import redistribute
from alfish.replay.storage import flat_rows
from alfish.replay.uniform_sampler import UniformSampler
from alfish.types import BatchInfo, Experience, Nest, TimeStep

_LARGEST_IN_CHECKPOINT = 2 * 2**30


@configurable
class ReplayBuffer:
    """Stores `[env, time, ...]`, one copy of everything; the next observation is the next row.

    A row is a time step with the action taken there. The newest time step is stored before its action is known, so
    that every transition can be sampled at once; the next `add` completes its row. A position is the number of a time
    step of its environment, counted from 0.

    Args:
        num_environments: rings.
        max_length: time steps kept per environment.
        generator: the stream of random numbers for sampling; on the CPU.
        device: where sampled data go. Stored data stay in main memory.
        prioritized: draw in proportion to priorities instead of uniformly.
        initial_priority: stored priority of data that come before the first update.
        recent_data_steps: how many of the newest starts of each environment count as recent.
        recent_data_ratio: part of every batch that is drawn from recent data; 0: none. Not with `prioritized`.
        num_earliest_frames_ignored: so many of the oldest time steps start no sequence: the frames a frame stack
            looks back to are gone there.
        with_replacement: draw every sequence of a uniform batch on its own, instead of spreading the batch evenly
            over what is stored.
        enable_checkpoint: checkpoints carry the stored data; None: up to 2 GiB of them.
    """

    def __init__(
        self,
        num_environments: int,
        max_length: int,
        generator: torch.Generator,
        device: torch.device | str = "cpu",
        prioritized: bool = False,
        initial_priority: Annotated[float, Range(above=0)] = 1.0,
        recent_data_steps: Annotated[int, Range(min=1)] = 1,
        recent_data_ratio: Annotated[float, Range(min=0, max=1)] = 0.0,
        num_earliest_frames_ignored: Annotated[int, Range(min=0)] = 0,
        with_replacement: bool = False,
        enable_checkpoint: bool | None = None,
    ) -> None:
        if prioritized and recent_data_ratio > 0:
            raise ConfigError(
                f"ReplayBuffer.recent_data_ratio = {recent_data_ratio} with TrainerConfig.priority_replay = True: "
                "priorities already favour new data, and importance weights would be wrong. Use one of them."
            )
        self.num_environments = num_environments
        self.max_length = max_length
        self._generator = generator
        self._device = torch.device(device)
        self._enable_checkpoint = enable_checkpoint
        self._extent = Extent(num_environments, max_length, num_earliest_frames_ignored)
        self._uniform = UniformSampler(generator, with_replacement, recent_data_steps, recent_data_ratio)
        self._prioritized: PrioritizedSampler | None = None
        if prioritized:
            self._prioritized = PrioritizedSampler(num_environments, max_length, generator, initial_priority)
        self._storage = ExperienceStorage(num_environments, max_length, PRIORITY_NBYTES if prioritized else 0)
        self._bounds: EpisodeBounds | None = None  # made when first asked for
        self._newest_draw: BatchInfo | None = None  # by priority
        self._newest_step: TimeStep | None = None  # of all environments, if `add_step` stored it
        self._longest_known = 0  # so long sequences are there; only `clear` can take them away

    @property
    def num_transitions(self) -> int:
        """Stored transitions over all environments."""
        return int(np.maximum(self._extent.newest - self._extent.oldest, 0).sum())

    @property
    def oldest(self) -> torch.Tensor:
        """Oldest stored position of every environment."""
        return torch.from_numpy(self._extent.oldest.copy())

    @property
    def newest(self) -> torch.Tensor:
        """Position of the newest time step of every environment; -1: none."""
        return torch.from_numpy(self._extent.newest.copy())

    @property
    def nbytes(self) -> int:
        """Bytes set aside for stored data and priorities; the rows only once their layout is known."""
        priorities = self.num_environments * self.max_length * PRIORITY_NBYTES if self._prioritized else 0
        return self._storage.nbytes + priorities

    @property
    def belongs_in_checkpoint(self) -> bool:
        """Whether a checkpoint should carry `state_dict()`, by `enable_checkpoint` and by how much is stored."""
        if self._enable_checkpoint is not None:
            return self._enable_checkpoint
        filled = (self.num_transitions + self.num_environments) / (self.num_environments * self.max_length)
        return filled * self._storage.nbytes <= _LARGEST_IN_CHECKPOINT

    def needed(self, spec: Experience) -> int:
        """Bytes that it will take when it stores such rows; refuses when the machine has less.

        Args:
            spec: as for `allocate`.
        """
        return self._storage.needed(spec)

    def allocate(self, spec: Experience) -> None:
        """Sets the memory aside, or refuses when there is too little. Otherwise the first `add` does.

        Args:
            spec: `TensorSpec`s of one row: a time step, its action, rollout info and state.
        """
        self._storage.allocate(spec)

    def add(self, experience: Experience, env_ids: torch.Tensor | None = None) -> None:
        """Appends `T` actions and the time steps around them; the first time step is the newest of the last add.

        Args:
            experience: `[T + 1, B]` time steps, `[T, B]` actions, infos and states.
            env_ids: the environments of the columns, `[B]`, each at most once; None: all, in order.
        """
        length = experience.length
        if length >= self.max_length:
            raise ConfigError(
                f"TrainerConfig.replay_buffer_length = {self.max_length} cannot hold one unroll of {length} steps and "
                f"the time step after it: use {length + 1} or more"
            )
        envs = None if env_ids is None else _numbers(env_ids)
        self._storage.write(experience, self._extent.newest_of(envs), envs)
        self._extent.advance(length, envs)
        self._newest_step = None

    def add_step(
        self, time_step: TimeStep, action: Nest, rollout_info: Nest, state: Nest, next_time_step: TimeStep
    ) -> None:
        """Appends one action of every environment: as `add`, of leaves `[B, ...]` that nobody had to stack.

        Args:
            time_step: where the action was taken. If it is the very object that the last call had as its
                `next_time_step`, it is known to be stored.
            action: that was taken.
            rollout_info: what `rollout_step` noted.
            state: the recurrent state before the step.
            next_time_step: where it led to.
        """
        newest, storage = self._extent.newest_of(None), self._storage
        if time_step is self._newest_step and isinstance(newest, int) and storage.writes_steps:
            storage.write_step((next_time_step, (action, rollout_info, state)), newest)
            self._extent.advance_all_to(newest + 1)
        else:
            rest = nest.stack([(action, rollout_info, state)])
            self.add(Experience(nest.stack([time_step, next_time_step]), *rest))
        self._newest_step = next_time_step

    def has_sequences(self, length: int) -> bool:
        """Whether there is at least one sequence of `length` time steps to draw."""
        if length > self._longest_known:
            first, end = self._extent.starts(length)
            if (end > first).any():
                self._longest_known = length
        return length <= self._longest_known

    def sample(
        self,
        batch_size: int,
        length: int,
        beta: float | None = None,
        normalize_by_max: bool = False,
        reuse: bool = False,
    ) -> Experience:
        """`batch_size` sequences of `length` time steps, uniformly drawn or by priority.

        Args:
            batch_size: B.
            length: time steps per sequence, one more than its actions.
            beta: exponent of the importance weights of prioritized replay,
                `(priority / mean priority) ** -beta`; None: no weights.
            normalize_by_max: divide the weights by the largest of the batch.
            reuse: the last batch of this size is not needed any more: the new one takes its place in memory, which
                is quicker. On the CPU it is the same object.
        """
        if not self.has_sequences(length):
            raise ConfigError(
                f"replay holds no sequence of {length} time steps: the fullest environment has "
                f"{int((self._extent.newest - self._extent.oldest).max()) + 1}, of which the oldest "
                f"{self._extent.num_ignored} start none. Collect more first (TrainerConfig.initial_collect_steps)."
            )
        weights: list[NDArray[np.float32]] = []
        if self._prioritized is not None:
            first, end = self._extent.common_starts(length) or self._extent.starts(length)
            env_ids, positions, relative = self._prioritized.draw(first, end, batch_size)
            if beta is not None:
                weights.append(importance_weights(relative, beta, normalize_by_max))
        else:
            env_ids, positions = self._uniform.draw_from(self._extent, length, batch_size)
        rows = self._rows(env_ids, positions, length)
        if reuse and self._device.type == "cpu":
            batch = self._storage.refill(rows, (env_ids, positions, *weights))
        else:
            drawn = map(torch.from_numpy, (env_ids, positions))
            on_device = (torch.from_numpy(each).to(self._device) for each in weights)
            batch = self._storage.gather(rows, self._device, BatchInfo(*drawn, *on_device))
        self._newest_draw = batch.batch_info
        return batch

    def update_priorities(self, batch_info: BatchInfo, priority: torch.Tensor, alpha: float, eps: float) -> None:
        """Gives sampled sequences the stored priority `(priority + eps) ** alpha`, which counts from the next draw on.

        Args:
            batch_info: of the sampled sequences.
            priority: `[B]`, at least 0.
            alpha: exponent; 0: all are equal.
            eps: added, so that a priority of 0 is still drawn.
        """
        if self._prioritized is None:
            raise ConfigError("this replay has no priorities: build it with ReplayBuffer.prioritized = True")
        stored = priority.numpy(force=True).astype(np.float64)
        stored += eps
        stored **= alpha
        if batch_info is self._newest_draw:
            self._prioritized.update_newest(stored)
        else:
            self._prioritized.update(_numbers(batch_info.env_ids), _numbers(batch_info.positions), stored)

    def all_sequences(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Environments and positions of sequences of `length` time steps that hold every action once.

        A remainder too short for a sequence is left out at the old end.
        """
        first, end = self._extent.starts(length)
        counts = -(-(end - first) // (length - 1))
        index, env_ids = (np.arange(counts.max())[:, None] < counts).nonzero()
        return torch.from_numpy(env_ids), torch.from_numpy(end[env_ids] - 1 - index * (length - 1))

    def gather_all(self) -> Experience:
        """Everything that is stored, in the order of time, `[T + 1, env]`; all environments must hold equally much."""
        first, end = self._extent.starts(1)
        if len(set(end - first)) > 1 or not (end > first).all():
            raise ConfigError(
                f"the environments hold {(end - first).tolist()} time steps: all at once can be had only when these "
                "numbers are equal and not 0. Use all_sequences, or add for all environments together."
            )
        return self.get(torch.arange(self.num_environments), torch.from_numpy(first), int(end[0] - first[0]))

    def get(self, env_ids: torch.Tensor, positions: torch.Tensor, length: int) -> Experience:
        """The sequences of `length` time steps that start at `positions` `[B]`, time-major."""
        info = BatchInfo(env_ids=env_ids, positions=positions)
        return self._storage.gather(self._rows(_numbers(env_ids), _numbers(positions), length), self._device, info)

    def get_field(self, path: str, env_ids: torch.Tensor, positions: torch.Tensor) -> Nest:
        """A part of the stored time steps, e.g. `observation.achieved_goal`, at positions of any shape `[...]`.

        Args:
            path: which part; fields, keys and indices joined by dots.
            env_ids: environments; the shape broadcasts with that of `positions`.
            positions: which time steps; must be stored.
        """
        rows = flat_rows(_numbers(env_ids), _numbers(positions), self.max_length)
        return nest.to_device(self._storage.read(path, rows), self._device)

    def episode_begin(self, env_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Where the episodes of these time steps begin; the oldest stored position when FIRST was overwritten."""
        return torch.from_numpy(self._episodes().begin(_numbers(env_ids), _numbers(positions)))

    def episode_end(self, env_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Where the episodes of these time steps end; the newest position while an episode goes on."""
        return torch.from_numpy(self._episodes().end(_numbers(env_ids), _numbers(positions)))

    def clear(self) -> None:
        """Forgets everything but the newest time step (and the ignored frames before it)."""
        self._extent.clear()
        self._longest_known = 0

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values; rows lie one environment after the other, in the order of time."""
        stored = spans(self._extent.oldest, self._extent.newest + 1)
        return {
            "oldest": self.oldest,
            "newest": self.newest,
            "rows": self._storage.state_dict(flat_rows(*stored, self.max_length)),
            "priorities": self._prioritized.state_dict() if self._prioritized else None,
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what another buffer held. Of a longer one the newest part fits; missing priorities are made.

        What another number of environments had stored is spread over the rings, see `redistribute`.
        """
        if len(state["oldest"]) != self.num_environments:
            state = redistribute(state, self.num_environments, self.max_length)
        oldest, newest = state["oldest"].numpy(), state["newest"].numpy()
        self._extent.restore(oldest, newest)
        self._longest_known = 0
        env_ids, positions = spans(oldest, newest + 1)
        kept = positions >= self._extent.oldest[env_ids]
        rows = flat_rows(env_ids[kept], positions[kept], self.max_length)
        self._storage.load_state_dict(state["rows"], torch.from_numpy(kept), rows)
        self._bounds = self._newest_draw = self._newest_step = None
        self._generator.set_state(state["generator"])
        if self._prioritized and state["priorities"]:
            self._prioritized.load_state_dict(state["priorities"])

    def _rows(self, env_ids: Integers, positions: Integers, length: int) -> Integers:
        """The flat rows `[length, B]` of sequences."""
        rows: Integers = positions + _steps(length)
        rows %= self.max_length
        if self.num_environments > 1:
            rows += env_ids * self.max_length
        return rows

    def _episodes(self) -> EpisodeBounds:
        if self._bounds is None:
            self._bounds = EpisodeBounds(self._extent, lambda rows: _numbers(self._storage.read("step_type", rows)))
        return self._bounds


@lru_cache(maxsize=16)
def _steps(length: int) -> Integers:
    return np.arange(length)[:, None]


def _numbers(values: Any) -> Integers:
    numbers: Integers = values.numpy() if values.is_cpu else values.numpy(force=True)
    return numbers
