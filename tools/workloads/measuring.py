"""Clocks: steps per second after a warm-up, and microseconds of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time
from typing import Protocol

SPEED = "env steps/s"
Metrics = dict[str, dict[str, float]]  # by name; each by clock: "wall" and "processor"


class Turns(Protocol):
    """Several processes live at the same time, one of them runs."""

    def pass_on(self, metrics: Metrics) -> None:
        """Says what this turn measured, and waits for the next one.

        Raises:
            Finished: there is none.
        """


@dataclass(frozen=True)
class Request:
    """What a child process is asked to measure.

    Args:
        workload: e.g. 'W1'.
        variant: of the library; '' for the only one.
        threads: torch threads.
        seconds: to measure for, after the warm-up.
        folder: where files may be written.
        turns: taken with other processes; None: there is one turn.
    """

    workload: str
    variant: str
    threads: int
    seconds: float
    folder: str
    turns: Turns | None = None


@dataclass(frozen=True)
class Moment:
    count: int
    wall: float
    processor: float

    @classmethod
    def of(cls, count: int) -> Moment:
        return cls(count, perf_counter(), process_time())


class Finished(BaseException):
    """Ends a training loop from within. No `Exception`, so that no library takes it for an error of its own."""


class Stopwatch:
    """Counts from the end of the warm-up, which takes as long as a quarter of the measurement, to its end.

    With `turns`, it measures anew in each of them, without a further warm-up; the only one takes a second at least.
    """

    def __init__(self, seconds: float, turns: Turns | None = None) -> None:
        self._seconds = seconds
        self._turns = turns
        self._warm_up = max(1.0 if turns else 0.0, seconds / 4)
        self._ticks = 0
        self._first: Moment | None = None
        self._start: Moment | None = None
        self._speed: Metrics | None = None

    def tick(self, count: int) -> None:
        """Says that `count` steps are done in all.

        Raises:
            Finished: it was long enough.
        """
        now = Moment.of(count)
        self._ticks += 1
        self._first = self._first or now
        if self._start is None:
            if self._ticks >= 3 and now.wall - self._first.wall >= self._warm_up:
                self._start = now
        elif now.wall - self._start.wall >= self._seconds:
            self._speed = _speed(self._start, now)
            if self._turns is None:
                raise Finished
            self._turns.pass_on(self._speed)
            self._start = Moment.of(count)

    def speed(self) -> Metrics:
        """Of the last turn."""
        if self._speed is None:
            raise RuntimeError("the run ended before the measurement")
        return self._speed


def _speed(start: Moment, end: Moment) -> Metrics:
    count = end.count - start.count
    return {SPEED: {"wall": count / (end.wall - start.wall), "processor": count / (end.processor - start.processor)}}


def timed(run: Callable[[Callable[[int], None]], object], request: Request) -> Metrics:
    """The speed of a training loop that calls what it is given with the number of steps done."""
    watch = Stopwatch(request.seconds, request.turns)
    with suppress(Finished):
        run(watch.tick)
    return watch.speed()


def timed_iterations(counts: Iterator[int], request: Request) -> Metrics:
    """The speed of a loop that yields the number of steps done after each of its iterations."""

    def run(tick: Callable[[int], None]) -> None:
        for count in counts:
            tick(count)

    return timed(run, request)


def microseconds(calls: dict[str, Callable[[], object]], seconds: float) -> Metrics:
    """The time of each call, in turns: the median of the rounds that fit into the time."""
    repeats = {name: _repeats(call) for name, call in calls.items()}
    walls: dict[str, list[float]] = {name: [] for name in calls}
    processors: dict[str, list[float]] = {name: [] for name in calls}
    end = perf_counter() + seconds
    while perf_counter() < end or len(next(iter(walls.values()))) < 5:
        for name, call in calls.items():
            number = repeats[name]
            wall, processor = perf_counter(), process_time()
            for _ in range(number):
                call()
            walls[name].append((perf_counter() - wall) / number * 1e6)
            processors[name].append((process_time() - processor) / number * 1e6)
    return {f"{name}, us": {"wall": median(walls[name]), "processor": median(processors[name])} for name in calls}


def _repeats(call: Callable[[], object]) -> int:
    """As many as take about 20 ms."""
    for _ in range(5):
        call()
    began = perf_counter()
    for _ in range(5):
        call()
    return max(1, min(500, int(0.1 / max(perf_counter() - began, 1e-9))))
