"""A worker process that a test plays: the other end of the pipes, without the process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import torch

from alfish.errors import AlfishError, WorkerLost
from alfish.training.experience_ring import RingWriter, Row
from alfish.training.unroll_worker import Ready
from alfish.types import StepType, TimeStep


class FakeChild:
    """In place of a `Child` whose `main` is `act`."""

    made: list[FakeChild]  # in the order of their starts; a test begins with an empty one

    def __init__(self, name: str, main: Any, arguments: Sequence[Any]) -> None:
        self.name, self.pid = name, 4711
        _, self.share, self.parameters, ring = arguments
        # The original is closed where it came from.
        self.ring = RingWriter(ring._memory, _duplicate(ring._announced), _duplicate(ring._returned))
        self.pipe, self._theirs = Pipe()
        self.is_stopped = False
        self._error: AlfishError | None = None
        self.sentinel = self.pipe
        self.made.append(self)

    # What the worker does

    def begin(self, *observations: float) -> None:
        self.ring.open_with(time_step(observations, StepType.FIRST))
        self._theirs.send(Ready({}))

    def act(self, *observations: float, step_type: int = StepType.MID, version: int = 1) -> None:
        self.ring.put(row(observations, step_type, version))

    def die(self, error: AlfishError | None = None) -> None:
        self._error = error or WorkerLost(f"{self.name} (process {self.pid}) was killed by signal 9 (SIGKILL)")
        self._theirs.close()
        self.ring.close()

    # What the process that learns does

    def poll(self) -> bool:
        return self._error is not None or self.pipe.poll()

    def receive(self, timeout: float | None) -> Any:
        if self._error is not None:
            raise self._error
        return self.pipe.recv()

    def stack(self) -> str:
        return 'File "maze.py", line 7 in step'

    def stop(self) -> None:
        self.is_stopped = True

    kill = stop


def row(observations: Sequence[float], step_type: int = StepType.MID, version: int = 1) -> Row:
    """A step of environments that show these numbers; the actions are odd where they are."""
    shown = torch.tensor(observations, dtype=torch.float32)
    return Row(shown.long() % 2, (), (), time_step(observations, step_type), torch.full((len(shown),), version))


def time_step(observations: Sequence[float], step_type: int) -> TimeStep:
    shown = torch.tensor(observations, dtype=torch.float32)
    return TimeStep(
        step_type=torch.full((len(shown),), step_type, dtype=torch.int32),
        reward=shown,
        discount=torch.zeros(len(shown)),
        observation=shown.unsqueeze(-1),
        prev_action=shown.long(),
        env_id=torch.arange(len(shown)),
    )


def _duplicate(pipe: Connection) -> Connection:
    return Connection(os.dup(pipe.fileno()), readable=pipe.readable, writable=pipe.writable)
