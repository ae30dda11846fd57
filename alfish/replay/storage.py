"""Rows of experience, packed one beside the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

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

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def write(
        self, columns: slice, values: Sequence[torch.Tensor], start: Bound, env_ids: Integers | None = None
    ) -> None:
        """Writes `[T, B, ...]` values to `columns`, from the positions `start` on.

        Args:
            columns: which ones; `values` has one tensor for each.
            values: the block.
            start: where it begins in each environment, `[B]`, or in all of them.
            env_ids: the environments of the block, `[B]`; None: all, in order.
        """
        if not values:
            return
        length = values[0].size(0)
        places: slice | tuple[Integers, Integers]
        if (
            isinstance(start, int)
            and env_ids is None
            and (first := start % self.max_length) + length <= self.max_length
        ):
            places = slice(first, first + length)
        else:
            envs = np.arange(values[0].size(1)) if env_ids is None else env_ids
            places = ((start + np.arange(length)[:, None]) % self.max_length, envs)
        for target, value in zip(self._by_time[columns], values, strict=True):
            # Asked for by name, since `force` takes longer than the copy of a small leaf.
            target[places] = value.numpy() if value.is_cpu and not value.requires_grad else value.numpy(force=True)

    def gather(self, rows: Integers, num_complete: int | None = None) -> list[torch.Tensor]:
        """Every column at the flat `rows` `[T, ...]`, which are `env * max_length + place`.

        Columns from `num_complete` on come without the last of the T.
        """
        batch = self._rows.take(rows)
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


def flat_rows(env_ids: Integers, positions: Integers, max_length: int) -> Integers:
    """Where the positions of these environments lie; the shapes broadcast."""
    return env_ids * max_length + positions % max_length
