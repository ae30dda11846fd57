"""Where the time goes."""

from __future__ import annotations

import time
from collections.abc import Callable

OTHER = "other"


class Timers:
    """Seconds per named phase of a run. Every moment belongs to one phase, so the phases add up to the wall time.

    Inside a phase another one may begin; the inner time counts for the inner phase only. What no phase covers is
    `other`.

    >>> timers = Timers()
    >>> with timers("learn"):
    ...     pass
    >>> sorted(timers.seconds())
    ['learn', 'other']
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._phases: dict[str, _Phase] = {}
        self._seconds: dict[str, float] = {OTHER: 0.0}
        self._stack = [OTHER]
        self._mark = clock()

    def __call__(self, name: str) -> _Phase:
        """A context manager: the time inside it belongs to the phase `name`."""
        phase = self._phases.get(name)
        if phase is None:
            phase = self._phases[name] = _Phase(self, name)
            self._seconds.setdefault(name, 0.0)
        return phase

    def seconds(self) -> dict[str, float]:
        """Seconds of each phase so far, the running one included."""
        self._account()
        return dict(self._seconds)

    def shares(self) -> dict[str, float]:
        """The share of each phase in the time so far; empty at the very beginning."""
        seconds = self.seconds()
        total = sum(seconds.values())
        return {name: value / total for name, value in seconds.items()} if total else {}

    def _account(self) -> None:
        now = self._clock()
        self._seconds[self._stack[-1]] += now - self._mark
        self._mark = now


class _Phase:
    """Kept and used again: a generator-based context manager would cost several times as much per step."""

    def __init__(self, timers: Timers, name: str) -> None:
        self._timers = timers
        self._name = name

    def __enter__(self) -> None:
        timers = self._timers
        timers._account()
        timers._stack.append(self._name)

    def __exit__(self, *_: object) -> None:
        timers = self._timers
        timers._account()
        timers._stack.pop()
