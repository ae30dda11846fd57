"""Where environments in processes and their parent exchange numbers. Runs in workers: imports no torch."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from alfish.environments.spaces import Array, Field

_ALIGNMENT = 64


@dataclass(frozen=True)
class Layout:
    """What a row holds."""

    num_rows: int
    observation: tuple[Field, ...]
    action: tuple[Field, ...]
    reward_shape: tuple[int, ...]
    num_infos: int

    def fields(self) -> list[Field]:
        floats, flags = np.dtype(np.float32), np.dtype(np.uint8)
        return [*self.observation, *self.action, (self.reward_shape, floats), ((), flags), ((self.num_infos,), floats)]


class SharedRows:
    """Arrays `[num_rows, ...]` in shared memory, a row per process.

    The memory has no name, so whoever is killed, nothing is left behind. It goes to a process as an argument when
    that is spawned, not later.

    Args:
        layout: what a row holds.
        memory: of another `SharedRows`; None: new memory.
    """

    def __init__(self, layout: Layout, memory: Any = None) -> None:
        self.layout = layout
        sizes = [layout.num_rows * prod(shape) * dtype.itemsize for shape, dtype in layout.fields()]
        offsets = [0]
        for size in sizes:
            offsets.append(offsets[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
        self._memory = memory or multiprocessing.get_context("spawn").RawArray("b", offsets[-1])
        arrays: Iterator[Array] = (
            np.ndarray((layout.num_rows, *shape), dtype, self._memory, offset)
            for (shape, dtype), offset in zip(layout.fields(), offsets, strict=False)
        )
        self.observations = list(islice(arrays, len(layout.observation)))
        self.actions = list(islice(arrays, len(layout.action)))
        self.rewards, self.ends, self.infos = arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedRows, (self.layout, self._memory)


class End:
    """How an episode stands after a step."""

    NONE = 0
    TERMINATED = 1
    TRUNCATED = 2
