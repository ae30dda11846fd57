"""Experience on its way from the process that acts to the one that learns: rows of shared memory, used in turn."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import suppress
from multiprocessing.connection import Connection, wait

import torch

from alfish import nest
from alfish.specs import TensorSpec
from alfish.training.shared_tensors import SharedTensors
from alfish.types import Nest, TimeStep, record

_TOKEN = b"."
_WAKE_UPS = 8  # of the writer in one round, at most
_LONGEST = 65536  # rows: as many bytes as a pipe holds


@record
class Row:
    """One step of every environment, `[B, ...]`."""

    action: Nest
    rollout_info: Nest
    state: Nest  # the recurrent state before the action
    time_step: TimeStep  # after the action
    version: torch.Tensor  # int64, of the parameters that chose the action


class RingWriter:
    """The end of the process that acts. Given to it when it is started.

    Written rows are announced, and read ones given back, by single bytes in two pipes: either process can wait for
    the other and for its end at once, and what one wrote before it, the other sees after it. Nobody holds a lock.
    """

    def __init__(self, memory: _Memory, announced: Connection, returned: Connection) -> None:
        self._memory = memory
        self._announced, self._returned = announced, returned
        self._position = 0
        self._free = memory.length

    def open_with(self, time_step: TimeStep) -> None:
        """Where the environments are before the first row."""
        _copy(self._memory.opening, time_step)

    def wait_for_space(self, pipe: Connection) -> bool:
        """Waits until there is a free row; False: `pipe` was closed at its other end."""
        while self._free == 0:
            ready = wait([self._returned, pipe])
            received = 0 if pipe in ready else _receive(self._returned)
            if not received:
                return False
            self._free += received
        return True

    def put(self, row: Row) -> None:
        """Writes a row; only when there is space."""
        _copy(nest.index(self._memory.rows, self._position), row)
        self._position = (self._position + 1) % self._memory.length
        self._free -= 1
        _send(self._announced, 1)

    def count_late_step(self) -> None:
        self._memory.late_steps += 1

    def close(self) -> None:
        """Where it came from, after it was given away: only then the end of the other process is that of the pipes."""
        self._announced.close()
        self._returned.close()


class RingReader:
    """The end of the process that learns."""

    def __init__(self, memory: _Memory, announced: Connection, returned: Connection) -> None:
        self.announced = announced  # readable when there are new rows, or nobody is left to write them
        self._memory = memory
        self._returned = returned
        self._num_announced = 0
        self._num_taken = 0
        self._num_returned = 0

    @property
    def num_announced(self) -> int:
        """Rows that were written so far."""
        while self.announced.poll():
            received = _receive(self.announced)
            if not received:
                break  # the writer is gone
            self._num_announced += received
        return self._num_announced

    @property
    def available(self) -> int:
        """Rows to take."""
        return self.num_announced - self._num_taken

    @property
    def is_full(self) -> bool:
        """Whether the writer has to wait."""
        return self.num_announced - self._num_returned == self._memory.length

    @property
    def late_steps(self) -> int:
        """How many steps came later than they should."""
        return int(self._memory.late_steps)

    def opening(self) -> TimeStep:
        """Where the environments were before the first row."""
        return nest.map(torch.clone, self._memory.opening)

    def take(self, number: int) -> Row:
        """A copy of the oldest rows, `[number, B, ...]`; there must be as many."""
        assert number <= self.available
        places = (torch.arange(number) + self._num_taken) % self._memory.length
        rows: Row = nest.index(self._memory.rows, places)
        self._num_taken += number
        # A writer that waits is woken for several rows at once: to be woken costs more than to write one.
        if self._num_taken - self._num_returned >= self._memory.length // _WAKE_UPS:
            self.give_back()
        return rows

    def give_back(self) -> None:
        """Lets the writer have every row that was taken; to be called before waiting for it."""
        _send(self._returned, self._num_taken - self._num_returned)
        self._num_returned = self._num_taken

    def close(self) -> None:
        self.announced.close()
        self._returned.close()


def make_ring(example: Row, length: int) -> tuple[RingWriter, RingReader]:
    """A ring of `length` rows like `example`. The writer goes to another process, and is closed here."""
    spawn = multiprocessing.get_context("spawn")
    announced, announcing = spawn.Pipe(duplex=False)
    returned, returning = spawn.Pipe(duplex=False)
    memory = _Memory(example, length)
    return RingWriter(memory, announcing, returned), RingReader(memory, announced, returning)


class _Memory:
    """`length` rows, one more time step and a counter, shared between the processes."""

    def __init__(self, example: Row, length: int) -> None:
        self.length = length
        self._row: Row = nest.map(lambda leaf: TensorSpec(tuple(leaf.shape), leaf.dtype), example)
        counter = TensorSpec((), torch.int64)
        rows = [TensorSpec((length, *spec.shape), spec.dtype) for spec in nest.leaves(self._row)]
        self._shared = SharedTensors([counter, *rows, *nest.leaves(self._row.time_step)])
        self._map()

    def _map(self) -> None:
        self.late_steps, *leaves = self._shared.tensors
        count = len(nest.leaves(self._row))
        self.rows: Row = nest.unflatten(self._row, leaves[:count])  # [length, B, ...]
        self.opening: TimeStep = nest.unflatten(self._row.time_step, leaves[count:])

    def __getstate__(self) -> tuple[int, Row, SharedTensors]:
        return self.length, self._row, self._shared

    def __setstate__(self, state: tuple[int, Row, SharedTensors]) -> None:
        self.length, self._row, self._shared = state
        self._map()


def _copy(target: Nest, source: Nest) -> None:
    for to, value in zip(nest.leaves(target), nest.leaves(source), strict=True):
        to.copy_(value)


def _send(pipe: Connection, number: int) -> None:
    """Never more bytes than the ring has rows, so a pipe always has room for them."""
    with suppress(BrokenPipeError):  # the other process is gone: whoever waits for it is told
        os.write(pipe.fileno(), _TOKEN * number)


def _receive(pipe: Connection) -> int:
    """How many bytes came; 0: the other end is closed."""
    return len(os.read(pipe.fileno(), _LONGEST))
