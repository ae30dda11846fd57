"""What a run shows while it goes on: one live line at a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TextIO

from alfish.progress import Progress
from alfish.summary.timers import OTHER, Timers

_BAR_LENGTH = 20
_UNITS = {"env_steps": "steps", "updates": "updates"}


class Watched(Protocol):
    """The metrics of a run."""

    @property
    def headline(self) -> tuple[str, float | None]:
        """What people watch, and its value."""


@dataclass(frozen=True)
class Status:
    """What one progress line says."""

    fraction: float  # of the budget
    count: int  # of what is done so far
    per_second: float
    value: float | None = None  # what people watch
    name: str = "return"  # of the value
    unit: str = "steps"  # that are counted
    shares: Mapping[str, float] = field(default_factory=dict)  # of the time, by phase
    seconds_left: float | None = None


def format_status(status: Status, bar: bool = True, width: int | None = None) -> str:
    """The status as one line, at most `width` characters: when they do not fit, the bar goes first."""
    parts = [
        f"{status.name} {'-' if status.value is None else format_number(status.value)}",
        f"{status.count:,} {status.unit}",
        f"{status.per_second:,.0f}/s",
    ]
    shares = [f"{name} {share:.0%}" for name, share in _ordered(status.shares) if share >= 0.005]
    if shares:
        parts.append(" ".join(shares))
    if status.seconds_left is not None:
        parts.append(f"{format_seconds(status.seconds_left)} left")
    percent = f"{min(status.fraction, 1.0):4.0%}"
    line = "  ".join([percent, *parts])
    with_bar = "  ".join([f"{percent} {_bar(status.fraction)}", *parts])
    if bar and (width is None or len(with_bar) <= width):
        return with_bar
    return line if width is None else line[:width]


def format_number(value: float) -> str:
    """Four significant digits, no exponent for what people call a return: 312.4, -0.0512, 21,345."""
    if value == 0 or 1e-3 <= abs(value) < 1000:
        return f"{value:.4g}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def format_seconds(seconds: float) -> str:
    """`0:07`, `12:34`, `5:06:07`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _bar(fraction: float) -> str:
    done = min(_BAR_LENGTH, int(fraction * _BAR_LENGTH))
    return f"[{'#' * done}{'.' * (_BAR_LENGTH - done)}]"


def _ordered(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    """As the phases came, with the rest at the end."""
    return sorted(shares.items(), key=lambda item: item[0] == OTHER)


class Console:
    """The voice of a run.

    At a terminal the progress line is drawn over itself; elsewhere a line appears for every tenth of the run, and
    after `line_seconds` at the latest.

    Args:
        stream: where to; standard error by default, so that standard output stays free for results.
        show_progress: False: no progress line.
        verbose: False: no messages.
        line_seconds: longest time between two plain lines.
        clock: a monotonic clock.
        counts: what of the progress is shown.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        show_progress: bool = True,
        verbose: bool = True,
        line_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        counts: Literal["env_steps", "updates"] = "env_steps",
    ) -> None:
        self._counts = counts
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._show_progress = show_progress
        self._verbose = verbose
        self._interval = 0.1 if self._is_terminal else line_seconds
        self._clock = clock
        self._live = ""  # the line that is on the terminal now
        self._began: tuple[float, int, float] | None = None  # clock, count, fraction of this session
        self._next_time = 0.0
        self._next_fraction = 0.0

    def begin(self, progress: Progress) -> None:
        """Rates and the time left are counted from here, which after a resume is not the beginning of the run."""
        self._began = (self._clock(), self._count(progress), progress.fraction)
        self._schedule(progress)

    def message(self, text: str) -> None:
        """A line that stays, above the progress line."""
        if self._verbose:
            self._write(f"{self._clear()}{text}\n{self._live}")

    def update(self, progress: Progress, metrics: Watched, timers: Timers) -> None:
        """Called every iteration; shows the progress when it is time to."""
        if not self._show_progress:
            return
        if self._began is None:
            self.begin(progress)
        by_fraction = not self._is_terminal and progress.fraction >= self._next_fraction
        if self._clock() >= self._next_time or by_fraction:
            self.show(self.status(progress, metrics, timers))
            self._schedule(progress)

    def status(self, progress: Progress, metrics: Watched, timers: Timers) -> Status:
        count = self._count(progress)
        began, first_count, first_fraction = self._began or (self._clock(), count, progress.fraction)
        elapsed = self._clock() - began
        done = progress.fraction - first_fraction
        name, value = metrics.headline
        return Status(
            fraction=progress.fraction,
            count=count,
            per_second=(count - first_count) / elapsed if elapsed > 0 else 0.0,
            value=value,
            name=name,
            unit=_UNITS[self._counts],
            shares=timers.shares(),
            seconds_left=elapsed * max(0.0, 1 - progress.fraction) / done if done > 0 else None,
        )

    def show(self, status: Status) -> None:
        if self._is_terminal:
            # One column is kept free: a full line would wrap, and could not be drawn over.
            line = format_status(status, width=shutil.get_terminal_size().columns - 1)
            self._write(f"{self._clear()}{line}")
            self._live = line
        else:
            self._write(format_status(status, bar=False) + "\n")

    def close(self) -> None:
        """Leaves the last progress line where it is."""
        if self._live:
            self._write("\n")
            self._live = ""

    def _count(self, progress: Progress) -> int:
        return progress.env_steps if self._counts == "env_steps" else progress.updates

    def _schedule(self, progress: Progress) -> None:
        self._next_time = self._clock() + self._interval
        self._next_fraction = (int(progress.fraction * 10) + 1) / 10

    def _clear(self) -> str:
        return "\r\x1b[K" if self._is_terminal else ""

    def _write(self, text: str) -> None:
        """A closed pipe or a vanished terminal does not stop a run."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._show_progress = self._verbose = False
