"""Rows of experience, packed one beside the other."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from alfish.errors import ConfigError
from alfish.replay.extent import Bound, Integers
from alfish.specs import TensorSpec

_NUMPY_DTYPE = {
    torch.float16: np.float16,
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.uint8: np.uint8,
    torch.int8: np.int8,
    torch.int16: np.int16,
    torch.int32: np.int32,
    torch.int64: np.int64,
    torch.bool: np.bool_,
}

Block = tuple[NDArray[np.void], list[torch.Tensor]]  # rows, and their columns in the same memory

_LARGEST_PACKED = 2**18  # bytes: to copy more takes so long that packing them first does not pay
_MOST_BLOCKS = 16  # that are kept; unrolls of whole episodes have many shapes


class RingStorage:
    """`[env, time]` rows, each with all its columns in one stretch of memory.

    Drawing a row then costs one cache miss instead of one for every column, and a batch is one gather.

    Args:
        columns: shape and dtype of every column, by name.
        num_environments: rings.
        max_length: rows per ring.
    """

    def __init__(self, columns: dict[str, TensorSpec], num_environments: int, max_length: int) -> None:
        self.max_length = max_length
        layout = row_layout(columns)
        # numpy asks for zeroed pages without touching them: memory is taken as the buffer fills.
        rows = np.zeros((num_environments, max_length), layout)
        self._rows = rows.reshape(-1)
        self._names = layout.names or ()
        self._columns = [self._rows[name] for name in self._names]  # [env * time, ...]
        self._by_time = [rows[name].swapaxes(0, 1) for name in self._names]  # [time, env, ...], as data come in
        self._whole_by_time = _whole(rows).swapaxes(0, 1)  # [time, env]
        self._blocks: dict[tuple[int, ...], Block] = {}  # by shape; see `_packed`
        self._step_block: Block | None = None  # see `write_step`
        self.writes_steps = 2 * num_environments * layout.itemsize <= _LARGEST_PACKED  # rows are so small that it pays

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def write(self, values: list[torch.Tensor], start: Bound, env_ids: Integers | None = None) -> None:
        """Writes `[T, B, ...]` values of all columns, from the positions `start` on.

        Args:
            values: one tensor for each column. Those that are not known yet for the last of the T come without it;
                what they hold there is open until it is written.
            start: where the block begins in each environment, `[B]`, or in all of them.
            env_ids: the environments of the block, `[B]`; None: all, in order.
        """
        length, width = shape = values[0].shape[:2]
        if length * width * self._rows.itemsize <= _LARGEST_PACKED:
            self._whole_by_time[self._places(start, length, width, env_ids)] = self._packed(values, shape)
            return
        for target, value in zip(self._by_time, values, strict=True):
            target[self._places(start, value.size(0), width, env_ids)] = value.numpy(force=True)

    def write_step(self, values: list[torch.Tensor], position: int, num_next: int) -> None:
        """Completes the rows at a position of all environments, and begins those after it.

        Args:
            values: `[B, ...]` of every column: the first `num_next` for the rows after the position, the others for
                those at it, whose first columns stay as they are.
            position: the same in all environments.
            num_next: columns that are known at once.
        """
        if self._step_block is None:
            self._step_block = self._new_step_block(num_next)
        rows, columns = self._step_block
        here, after = position % self.max_length, (position + 1) % self.max_length
        rows[0] = self._whole_by_time[here]
        torch._foreach_copy_(columns, _without_graphs(values))
        self._whole_by_time[here] = rows[0]
        self._whole_by_time[after] = rows[1]

    def _places(
        self, start: Bound, length: int, width: int, env_ids: Integers | None
    ) -> slice | tuple[Integers, Integers]:
        """Where in `[time, env]` a block of `[length, width]` goes."""
        if isinstance(start, int) and env_ids is None:
            first = start % self.max_length
            if first + length <= self.max_length:
                return slice(first, first + length)
        times: Integers = (start + np.arange(length)[:, None]) % self.max_length
        return times, np.arange(width) if env_ids is None else env_ids

    def _packed(self, values: list[torch.Tensor], shape: tuple[int, ...]) -> NDArray[np.void]:
        """The values as whole rows `[T, B]`, in memory that is used again.

        Writing these takes half the time of writing the columns one by one: to look at a small tensor from numpy takes
        longer than to copy it.
        """
        block = self._blocks.get(shape)
        if block is None:
            if len(self._blocks) == _MOST_BLOCKS:
                self._blocks.clear()
            block = self._blocks[shape] = self._new_block(values, shape)
        rows, columns = block
        torch._foreach_copy_(columns, _without_graphs(values))
        return rows

    def _new_block(self, values: list[torch.Tensor], shape: tuple[int, ...]) -> Block:
        rows = np.zeros(shape, self._rows.dtype)
        with torch.inference_mode(False):  # made in there, it could be written to only in there
            columns = [
                torch.from_numpy(rows[name][: value.size(0)]) for name, value in zip(self._names, values, strict=True)
            ]
        return _whole(rows), columns

    def _new_step_block(self, num_next: int) -> Block:
        rows = np.zeros((2, len(self._whole_by_time[0])), self._rows.dtype)
        with torch.inference_mode(False):
            columns = [torch.from_numpy(rows[name][int(index < num_next)]) for index, name in enumerate(self._names)]
        return _whole(rows), columns

    def gather(self, rows: Integers, num_complete: int | None = None) -> list[torch.Tensor]:
        """Every column at the flat `rows` `[T, ...]`, which are `env * max_length + place`.

        Columns from `num_complete` on come without the last of the T.
        """
        return self.columns(self.take(rows), num_complete)

    def take(self, rows: Integers, out: NDArray[np.void] | None = None) -> NDArray[np.void]:
        """The flat `rows` as they lie here; into `out`, if given, which has their shape."""
        if out is None:
            return self._rows.take(rows)
        return self._rows.take(rows, out=out, mode="clip")  # 'raise', the default, would copy them twice

    def columns(self, batch: NDArray[np.void], num_complete: int | None = None) -> list[torch.Tensor]:
        """The columns of rows that were taken; see `gather`."""
        names, shorter = self._names[:num_complete], self._names[len(self._names[:num_complete]) :]
        start = batch[:-1]
        return [torch.from_numpy(batch[name]) for name in names] + [torch.from_numpy(start[name]) for name in shorter]

    def read(self, column: int, rows: Integers) -> torch.Tensor:
        """One column at the flat `rows`."""
        return torch.from_numpy(np.asarray(self._columns[column][rows]))

    def fill(self, column: int, rows: Integers, values: torch.Tensor) -> None:
        """Writes one column at the flat `rows`."""
        self._columns[column][rows] = values.numpy(force=True)


def row_layout(columns: dict[str, TensorSpec]) -> np.dtype[np.void]:
    """How a row lies in memory; its `itemsize` is what a row takes."""
    for name, spec in columns.items():
        if spec.dtype not in _NUMPY_DTYPE:
            raise ConfigError(
                f"replay cannot store {name} of {spec.dtype}. Convert it in rollout_step, e.g. to torch.float32; "
                f"stored as they are: {', '.join(str(dtype).removeprefix('torch.') for dtype in _NUMPY_DTYPE)}"
            )
    fields = [(name, _NUMPY_DTYPE[spec.dtype], spec.shape) for name, spec in columns.items()]
    return np.dtype(fields, align=True)


def _without_graphs(values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Else the memory that they are copied to would keep these."""
    if True in [value.requires_grad for value in values]:  # half the time of `any` and a generator
        return [value.detach() for value in values]
    return values


def _whole(rows: NDArray[np.void]) -> NDArray[np.void]:
    """The rows without their columns: numpy copies these in one piece, not column by column."""
    return rows.view(np.dtype((np.void, rows.itemsize)))


def flat_rows(env_ids: Integers, positions: Integers, max_length: int) -> Integers:
    """Where the positions of these environments lie; the shapes broadcast."""
    return env_ids * max_length + positions % max_length
