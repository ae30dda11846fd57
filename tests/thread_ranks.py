"""Ranks that are threads of the test, for what does not need processes of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import torch

from alfish.collective import Collective

_SECONDS = 20.0  # longer than any of these tests takes


class ThreadRanks(Collective):
    """One of several threads; a call that the others do not make raises rather than waits for ever."""

    def __init__(self, rank: int, size: int, table: list[Any], barrier: Barrier) -> None:
        self.rank, self.size = rank, size
        self._table, self._barrier = table, barrier

    def gathered(self, value: Any) -> list[Any]:
        self._table[self.rank] = value
        self._barrier.wait(_SECONDS)
        values = list(self._table)
        self._barrier.wait(_SECONDS)
        return values

    def from_first(self, value: Any) -> Any:
        return self.gathered(value)[0]

    def sum_(self, tensor: torch.Tensor) -> None:
        tensor.copy_(torch.stack(self.gathered(tensor.clone())).sum(0))


def on_ranks(size: int, work: Callable[[Collective], Any]) -> list[Any]:
    """What `work` returns, or the exception it raises, by rank."""
    table: list[Any] = [None] * size
    barrier = Barrier(size)

    def one(rank: int) -> Any:
        try:
            return work(ThreadRanks(rank, size, table, barrier))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))
