"""Tensors in memory that worker processes share."""

from __future__ import annotations

import ctypes
import multiprocessing
from collections.abc import Sequence
from typing import Any

import torch

from alfish.specs import TensorSpec

_ALIGNMENT = 64  # bytes; every tensor begins on a cache line of its own


class SharedTensors:
    """Zeros at first. A process that gets this object as an argument when it is started sees the same memory.

    The memory has no name that could be left behind, whoever is killed. It does not depend on torch's way of sharing,
    which is a setting of the process.

    Args:
        specs: shape and dtype of each tensor.
    """

    tensors: list[torch.Tensor]

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        self._specs = tuple(specs)
        size = sum(_aligned(spec.nbytes) for spec in self._specs)
        self._memory: Any = multiprocessing.get_context("spawn").RawArray(ctypes.c_byte, size)
        self._map()

    def copies(self) -> list[torch.Tensor]:
        """The tensors as they are now, in memory of this process."""
        return self._views(self._bytes.clone())

    def _map(self) -> None:
        self._bytes = torch.frombuffer(self._memory, dtype=torch.uint8)
        self.tensors = self._views(self._bytes)

    def _views(self, memory: torch.Tensor) -> list[torch.Tensor]:
        views, offset = [], 0
        for spec in self._specs:
            views.append(memory[offset : offset + spec.nbytes].view(spec.dtype).view(spec.shape))
            offset += _aligned(spec.nbytes)
        return views

    def __getstate__(self) -> tuple[Any, ...]:
        return self._specs, self._memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._specs, self._memory = state
        self._map()


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
