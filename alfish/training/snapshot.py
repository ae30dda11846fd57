"""The parameters that acting needs, in memory that worker processes share."""

from __future__ import annotations

import ctypes
import multiprocessing
import threading
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from alfish.algorithms.algorithm import Algorithm
from alfish.errors import ConfigError, WorkerLost

_ALIGNMENT = 64  # bytes; every tensor begins on a cache line of its own
_COUNTERS = ("iterations", "env_steps", "updates", "episodes")
_HEADER = 2 * _ALIGNMENT  # the sequence number, the counters of the run, its fraction
_PATIENCE = 10.0  # seconds; a copy takes milliseconds
_lock = threading.Lock()  # of this process alone


@dataclass(frozen=True)
class _Slot:
    """Where a tensor lies."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int  # bytes
    size: int  # bytes


class SharedParameters:
    """Parameters and buffers of the acting part of an algorithm, its data transformers included, and its progress.

    One process publishes, any number of others load; they get this object as an argument when they are started. A
    reader gets a whole state, never half of one and half of the next. Nobody holds a lock, so nobody can die with it,
    and the memory has no name that could be left behind.

    Args:
        algorithm: says what there is to share; nothing is published yet.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self._slots = _slots(algorithm)
        size = _HEADER + sum(_aligned(slot.size) for slot in self._slots)
        # Mapped without a name; torch's own sharing depends on a setting of the process.
        self._memory: Any = multiprocessing.get_context("spawn").RawArray(ctypes.c_byte, size)
        self._map()

    @property
    def version(self) -> int:
        """How many states were published, the one that is just being written not counted."""
        return int(self._sequence) // 2

    def publish(self, algorithm: Algorithm) -> int:
        """Replaces the shared state by that of `algorithm`, and returns its version: 1, 2, ..."""
        version = self.version + 1
        state = self._state_of(algorithm)
        self._sequence.fill_(2 * version - 1)  # odd: readers wait
        _barrier()
        for name, shared in self._tensors.items():
            shared.copy_(state[name].detach())
        self._counters.copy_(torch.tensor([getattr(algorithm.progress, name) for name in _COUNTERS]))
        self._fraction.fill_(algorithm.progress.fraction)
        _barrier()
        self._sequence.fill_(2 * version)
        return version

    def load_into(self, algorithm: Algorithm) -> int:
        """Gives the newest shared state to `algorithm`, and returns its version; 0: there is none yet.

        Raises:
            WorkerLost: the publisher began to write and does not finish.
        """
        state = self._state_of(algorithm)
        version, whole = self._read()
        if version == 0:
            return 0
        with torch.no_grad():
            for name, tensor in self._views(whole).items():
                state[name].copy_(tensor)
        counters, fraction = _progress(whole)
        for name, count in zip(_COUNTERS, counters.tolist(), strict=True):
            setattr(algorithm.progress, name, count)
        algorithm.progress.fraction = fraction.item()
        return version

    def _state_of(self, algorithm: Algorithm) -> dict[str, torch.Tensor]:
        state = acting_state(algorithm)
        for slot in self._slots:
            if slot.name not in state or state[slot.name].shape != slot.shape:
                raise ConfigError(
                    f"{type(algorithm).__name__} is not the algorithm whose parameters are shared: these have a "
                    f"{slot.name} of shape {slot.shape}. Are both made from the same configuration?"
                )
        return state

    def _read(self) -> tuple[int, torch.Tensor]:
        """A copy of the memory that no write came into, and its version."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            before = int(self._sequence)
            if before % 2 == 0:
                _barrier()
                whole = self._bytes.clone()
                _barrier()
                if int(self._sequence) == before:
                    return before // 2, whole
            time.sleep(0.0002)
        raise WorkerLost(f"the parameters are half-written since {_PATIENCE:g} s: their publisher is gone or stuck")

    def _map(self) -> None:
        self._bytes = torch.frombuffer(self._memory, dtype=torch.uint8)
        self._sequence = self._bytes[:8].view(torch.int64)
        self._counters, self._fraction = _progress(self._bytes)
        self._tensors = self._views(self._bytes)

    def _views(self, memory: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            slot.name: memory[slot.offset : slot.offset + slot.size].view(slot.dtype).view(slot.shape)
            for slot in self._slots
        }

    def __getstate__(self) -> tuple[Any, ...]:
        return self._slots, self._memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._slots, self._memory = state
        self._map()


def acting_state(algorithm: Algorithm) -> dict[str, torch.Tensor]:
    """Parameters and buffers without those of which the algorithms say that only learning needs them."""
    idle = {f"{path}{name}" for path, part in _algorithms(algorithm) for name in part.learning_only}
    state: dict[str, torch.Tensor] = {}
    known: set[int] = set()
    # With duplicates: a module that the actor shares with a critic is found under both names, and acting needs it.
    for tensors in (algorithm.named_parameters, algorithm.named_buffers):
        for name, tensor in tensors(remove_duplicate=False):
            parts = name.split(".")
            if not any(".".join(parts[:end]) in idle for end in range(1, len(parts))) and id(tensor) not in known:
                known.add(id(tensor))
                state[name] = tensor
    return state


def _algorithms(root: nn.Module) -> list[tuple[str, Algorithm]]:
    """The algorithms of the tree with the prefix of what is below them."""
    return [
        (f"{name}." if name else "", module) for name, module in root.named_modules() if isinstance(module, Algorithm)
    ]


def _slots(algorithm: Algorithm) -> tuple[_Slot, ...]:
    slots: list[_Slot] = []
    offset = _HEADER
    for name, tensor in acting_state(algorithm).items():
        size = tensor.numel() * tensor.element_size()
        slots.append(_Slot(name, tuple(tensor.shape), tensor.dtype, offset, size))
        offset += _aligned(size)
    return tuple(slots)


def _progress(memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    begin = _ALIGNMENT
    middle = begin + 8 * len(_COUNTERS)
    return memory[begin:middle].view(torch.int64), memory[middle : middle + 8].view(torch.float64)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _barrier() -> None:
    """Other processes see what was written before it before what is written after it.

    Python has no fence, but releasing a lock and taking it again is one, also on processors that reorder writes.
    """
    with _lock:
        pass
    with _lock:
        pass
