"""One worker process that acts, seen from the process that learns."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import torch

from alfish import nest
from alfish.child import Child
from alfish.config.carry import merge_operative
from alfish.errors import WorkerLost
from alfish.seeding import Seeds
from alfish.training.experience_ring import Row, make_ring
from alfish.training.snapshot import SharedParameters
from alfish.training.unroll_worker import Ready, Share, act
from alfish.training.worker_config import WorkerConfig
from alfish.types import StepType, TimeStep, replace

MAX_RESTARTS = 3

_log = logging.getLogger(__name__)


class UnrollSupervisor:
    """Starts a worker, notices when it dies or hangs, and starts it again, `MAX_RESTARTS` times.

    Its rows go on from each other: where a worker was lost, the episodes of then end by a time limit, and a row
    without meaning leads to the first time step of the new one.

    Args:
        index: of the worker, from 0.
        num_workers: that share the environments.
        example: what its rows look like.
        queue_size: rows that it may be ahead.
        setup: the configuration.
        seeds: of the run.
        parameters: what it acts with.
        timeout: seconds that it may take to start, or to make a step.
        clock: a monotonic clock.
    """

    time_step: TimeStep  # where the next row begins

    def __init__(
        self,
        index: int,
        num_workers: int,
        example: Row,
        queue_size: int,
        setup: WorkerConfig,
        seeds: Seeds,
        parameters: SharedParameters,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.num_restarts = 0
        self._index, self._num_workers = index, num_workers
        self._example = example
        self._queue_size = queue_size
        self._setup, self._seeds, self._parameters = setup, seeds, parameters
        self._timeout = timeout
        self._clock = clock
        self._late_steps = 0  # of workers that are gone
        self._bridge: Row | None = None  # from where the worker before was lost to where this one begins
        self._has_begun = False
        self._num_seen = 0  # rows, when they were last looked for
        self._start()

    @property
    def available(self) -> int:
        """Rows to take."""
        return 0 if self.is_starting else self._reader.available + (self._bridge is not None)

    @property
    def late_steps(self) -> int:
        """Steps that came later than `unroll_step_interval` asks for."""
        return self._late_steps + self._reader.late_steps

    @property
    def signs(self) -> list[Connection | int]:
        """What to wait for: one of them is ready when `look` has something to see."""
        return [self._child.pipe, self._child.sentinel, self._reader.announced]

    def look(self) -> None:
        """Takes note of what the worker did, and replaces it when it is lost.

        Raises:
            WorkerLost: it was lost too often.
            AlfishError: it raised this.
        """
        try:
            if self._child.poll():
                self._hear(self._child.receive(0))
            self._check_time()
        except WorkerLost as loss:
            self._replace(loss)

    def take(self, number: int) -> tuple[TimeStep, Row]:
        """Where the oldest `number` rows begin, `[B, ...]`, and the rows, `[number, B, ...]`."""
        begin, bridge = self.time_step, self._bridge
        if bridge is None:
            rows = self._reader.take(number)
        else:
            first = nest.map(lambda leaf: leaf.unsqueeze(0), bridge)
            rows = first if number == 1 else nest.concat([first, self._reader.take(number - 1)])
            self._bridge = None
        self.time_step = nest.index(rows.time_step, -1)
        return begin, rows

    def give_back(self) -> None:
        """Lets the worker have every free row; to be called before waiting for it."""
        self._reader.give_back()

    def stop(self) -> None:
        """Twice is fine."""
        self._child.stop()
        self._reader.close()

    def _start(self) -> None:
        count = len(self._example.version)
        root = self._seeds.integer("unroll", self._index, self.num_restarts)
        share = Share(self._index, self._num_workers, count, self._seeds.root, root)
        writer, self._reader = make_ring(self._example, self._queue_size)
        arguments = (self._setup, share, self._parameters, writer)
        self._child = Child(f"unroll worker {self._index}", act, arguments)
        writer.close()
        self.is_starting = True  # until its environments are reset
        self._heard = self._clock()

    def _hear(self, ready: Ready) -> None:
        merge_operative(ready.used)
        self.is_starting = False
        self._num_seen = 0
        self._heard = self._clock()
        opening = self._reader.opening()
        if self._has_begun:
            self.time_step = _ended(self.time_step)
            blank = nest.map(torch.zeros_like, self._example)
            version = torch.full_like(blank.version, self._parameters.version)
            self._bridge = replace(blank, time_step=opening, version=version)
        else:
            self.time_step = opening
            self._has_begun = True

    def _check_time(self) -> None:
        now = self._clock()
        may_rest = not self.is_starting and (self._reader.is_full or self._parameters.version == 0)
        if may_rest or self._reader.num_announced != self._num_seen:
            self._num_seen = self._reader.num_announced
            self._heard = now
        if now - self._heard <= self._timeout:
            return
        doing = "did not start" if self.is_starting else "made no step"
        stack = self._child.stack()
        raise WorkerLost(
            f"{self._child.name} (process {self._child.pid}) {doing} within {self._timeout:g} s. Raise "
            f"TrainerConfig.unroll_timeout if it is only slow. It was here:\n{stack or '(it does not say)'}"
        )

    def _replace(self, loss: WorkerLost) -> None:
        lost_steps = len(self._example.version) * self._reader.available
        self._late_steps += self._reader.late_steps
        self._child.kill()
        self._reader.close()
        if self.num_restarts == MAX_RESTARTS:
            raise WorkerLost(f"{loss}\nIt was started again {MAX_RESTARTS} times before, and is given up.") from loss
        self.num_restarts += 1
        _log.warning(
            "%s\nIt is started again (%d of %d). Lost: %d environment steps that nothing was learned from yet.",
            loss,
            self.num_restarts,
            MAX_RESTARTS,
            lost_steps,
        )
        self._bridge = None
        self._start()


def _ended(time_step: TimeStep) -> TimeStep:
    """Episodes that nobody can go on with: a time limit, unless they were over in any case."""
    return replace(
        time_step,
        step_type=torch.full_like(time_step.step_type, StepType.LAST),
        discount=torch.where(time_step.is_last(), time_step.discount, 1.0),
    )
