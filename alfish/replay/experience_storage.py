"""Experience in a ring storage: which leaf is in which column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from alfish import nest
from alfish.errors import CheckpointMisfit, ConfigError
from alfish.replay.extent import Bound, Integers
from alfish.replay.memory import check_memory
from alfish.replay.storage import RingStorage, row_layout
from alfish.replay.structure import assembler, describe, lister, rebuild
from alfish.specs import TensorSpec
from alfish.types import BatchInfo, Experience, Nest

_MOST_KEPT = 4  # batches whose memory is used again


class _Kept(NamedTuple):
    rows: NDArray[np.void]
    drawn: list[NDArray[Any]]
    experience: Experience  # looks at these


class ExperienceStorage:
    """Takes and gives `Experience`. The rows are set aside when their structure is known: at the first write.

    Args:
        num_environments: rings.
        max_length: time steps kept per environment.
        extra_nbytes: that others need for every row.
    """

    def __init__(self, num_environments: int, max_length: int, extra_nbytes: int = 0) -> None:
        self._num_environments = num_environments
        self._max_length = max_length
        self._extra_nbytes = extra_nbytes
        self._ring: RingStorage | None = None
        self._columns: Nest = None  # (time step, (action, info, state)): which column each leaf is in
        self._assemble, self._list = assembler(()), lister(())
        self._num_time_step_columns = 0
        self._kept: dict[tuple[int, ...], _Kept] = {}  # by size; see `refill`
        self._structure_is_final = False  # in a structure read from a file, records may have become dicts

    @property
    def nbytes(self) -> int:
        """Of the rows; 0 before they are set aside."""
        return self._ring.nbytes if self._ring else 0

    def needed(self, spec: Experience) -> int:
        """Bytes that rows of this kind will take; refuses when there are not so many."""
        row_nbytes = row_layout(nest.named_leaves(_parts(spec))).itemsize + self._extra_nbytes
        check_memory(row_nbytes, self._num_environments, self._max_length)
        return row_nbytes * self._num_environments * self._max_length

    def allocate(self, spec: Experience) -> None:
        """Sets the memory aside, or refuses when there is too little."""
        self.needed(spec)
        columns = nest.named_leaves(_parts(spec))
        self._ring = RingStorage(columns, self._num_environments, self._max_length)
        self._adopt(_parts(spec))

    def write(self, experience: Experience, start: Bound, env_ids: Integers | None = None) -> None:
        """`[T + 1, B]` time steps and `[T, B]` of the rest; see `RingStorage.write`."""
        parts = _parts(experience)
        if self._ring is None:
            self.allocate(nest.map(lambda leaf: TensorSpec(tuple(leaf.shape[2:]), leaf.dtype), experience))
        elif not self._structure_is_final:
            self._adopt(parts)
        self._filled().write(nest.leaves(parts), start, env_ids)

    @property
    def writes_steps(self) -> bool:
        """Whether `write_step` may be called: something was written, and rows are small enough for it to pay."""
        return self._ring is not None and self._structure_is_final and self._ring.writes_steps

    def write_step(self, step: Nest, position: int) -> None:
        """Completes a row of all environments and begins the next.

        Args:
            step: the next time step, and (action, info, state) of the row at `position`, `[B, ...]`.
            position: the same in all environments.
        """
        self._filled().write_step(self._list(step), position, self._num_time_step_columns)

    def gather(self, rows: Integers, device: torch.device, info: BatchInfo = BatchInfo()) -> Experience:
        """Sequences `[T + 1, B]` of flat rows; the last row only gives its time step."""
        columns = self._filled().gather(rows, self._num_time_step_columns)
        if device.type != "cpu":
            columns = [column.to(device) for column in columns]
        return self._experience(columns, info)

    def refill(self, rows: Integers, drawn: Sequence[NDArray[Any]]) -> Experience:
        """As `gather`, into the memory of the last batch of this size: it is the same object, with new numbers.

        Args:
            rows: sequences of flat rows.
            drawn: what `BatchInfo` tells of them, in the order of its fields.
        """
        ring, size = self._filled(), (*rows.shape, len(drawn))
        kept = self._kept.get(size)
        if kept is None:
            if len(self._kept) == _MOST_KEPT:
                self._kept.clear()
            with torch.inference_mode(False):
                batch, info = ring.take(rows), [torch.tensor(each) for each in drawn]
                experience = self._experience(ring.columns(batch, self._num_time_step_columns), BatchInfo(*info))
            kept = self._kept[size] = _Kept(batch, [each.numpy() for each in info], experience)
        else:
            ring.take(rows, out=kept.rows)
            for memory, new in zip(kept.drawn, drawn, strict=True):
                memory[:] = new
        return kept.experience

    def _experience(self, columns: list[torch.Tensor], info: BatchInfo) -> Experience:
        time_steps, (action, rollout_info, state) = self._assemble(columns)
        return Experience(time_steps, action, rollout_info, state, batch_info=info)

    def read(self, path: str, rows: Integers) -> Nest:
        """A part of the time steps, such as `observation.camera`, at flat rows of any shape."""
        ring, part = self._filled(), self._columns[0]
        for key in path.split("."):
            if nest.is_record(part):
                part = getattr(part, key)
            else:
                part = part[key] if isinstance(part, dict) else part[int(key)]
        return nest.map(lambda column: ring.read(column, rows), part)

    def state_dict(self, rows: Integers) -> dict[str, Any]:
        """The flat rows by the paths of their leaves."""
        columns = nest.named_leaves(self._columns) if self._ring else {}
        return {
            "structure": describe(self._columns),
            "leaves": {path: self._filled().read(column, rows) for path, column in columns.items()},
        }

    def load_state_dict(self, state: dict[str, Any], kept: torch.Tensor, rows: Integers) -> None:
        """Writes those of the saved rows that are `kept` to the flat `rows`."""
        leaves: dict[str, torch.Tensor] = state["leaves"]
        if not leaves:
            return
        if self._ring is None:
            specs = iter(TensorSpec(tuple(leaf.shape[1:]), leaf.dtype) for leaf in leaves.values())
            time_step, (action, info, rollout_state) = nest.map(lambda _: next(specs), rebuild(state["structure"]))
            self.allocate(Experience(time_step, action, info, rollout_state))
            self._structure_is_final = False
        columns = nest.named_leaves(self._columns)
        _check_paths(list(columns), list(leaves))
        for path, column in columns.items():
            self._filled().fill(column, rows, leaves[path][kept])

    def _adopt(self, parts: Nest) -> None:
        """Data are given out in the structure of `parts`."""
        counter = iter(range(len(nest.leaves(parts))))
        columns = nest.map(lambda _: next(counter), parts)
        if self._columns is not None:
            _check_paths(list(nest.named_leaves(columns)), list(nest.named_leaves(self._columns)))
        self._columns = columns
        self._assemble, self._list = assembler(columns), lister(columns)
        self._kept.clear()
        self._num_time_step_columns = len(nest.leaves(parts[0]))
        self._structure_is_final = True

    def _filled(self) -> RingStorage:
        if self._ring is None:
            raise ConfigError("replay is empty: add experience first")
        return self._ring


def _parts(experience: Experience) -> tuple[Nest, tuple[Nest, Nest, Nest]]:
    """What is known of a row at once, and what completes it."""
    return experience.time_step, (experience.action, experience.rollout_info, experience.state)


def _check_paths(here: list[str], saved: list[str]) -> None:
    if here != saved:
        raise CheckpointMisfit(
            "the saved replay does not fit what this run stores: only saved: "
            f"{sorted(set(saved) - set(here)) or 'nothing'}, only here: {sorted(set(here) - set(saved)) or 'nothing'}. "
            "Use the algorithm and the environment it was saved with, or ReplayBuffer.enable_checkpoint = False."
        )
