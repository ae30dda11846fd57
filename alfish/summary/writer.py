"""What summaries are written to, and how a full disk is kept away from training."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Moment:
    """Where a run is when something is written."""

    iterations: int
    env_steps: int
    seconds: float  # of training so far, over all its sessions
    update: int | None = None  # for what one update says about itself: its number, from 1

    @property
    def step(self) -> int:
        """What TensorBoard shows on the horizontal axis: the update, else the iteration."""
        return self.iterations if self.update is None else self.update


class Writer(Protocol):
    """A place for summaries. What cannot be written raises `OSError`."""

    def scalars(self, moment: Moment, values: Mapping[str, float]) -> None: ...

    def text(self, moment: Moment, tag: str, text: str) -> None: ...

    def histogram(self, moment: Moment, tag: str, values: npt.NDArray[np.float64]) -> None: ...

    def poll(self) -> None:
        """Called often; writes out what has waited long enough."""

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        """How far the file goes now; taken with a checkpoint."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Cuts off what was written after the checkpoint, so that a resumed run writes nothing twice."""


class ResilientWriter:
    """Passes everything on to a writer, and never raises when that cannot write: training goes on without.

    When a write fails, a warning is logged, summaries are dropped, and after `retry_seconds` a new writer is made.
    There is one warning until writing works again.

    Args:
        make: makes the writer.
        what: its name in the warning, such as the path of a file.
        retry_seconds: time between two attempts.
        clock: a monotonic clock.
    """

    def __init__(
        self,
        make: Callable[[], Writer],
        what: str,
        retry_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._what = what
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._writer: Writer | None = None
        self._retry_at = clock()
        self._warned = False

    def scalars(self, moment: Moment, values: Mapping[str, float]) -> None:
        self._try(lambda writer: writer.scalars(moment, values))

    def text(self, moment: Moment, tag: str, text: str) -> None:
        self._try(lambda writer: writer.text(moment, tag, text))

    def histogram(self, moment: Moment, tag: str, values: npt.NDArray[np.float64]) -> None:
        self._try(lambda writer: writer.histogram(moment, tag, values))

    def poll(self) -> None:
        if self._writer is not None:
            self._try(lambda writer: writer.poll())

    def flush(self) -> None:
        if self._writer is not None and self._try(lambda writer: writer.flush()):
            self._warned = False

    def close(self) -> None:
        if self._writer is not None:
            self._try(lambda writer: writer.close())
        self._writer = None

    def state_dict(self) -> dict[str, Any]:
        """Empty while nothing can be written: then nothing is cut on resume."""
        state: dict[str, Any] = {}
        self._try(lambda writer: state.update(writer.state_dict()))
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            self._try(lambda writer: writer.load_state_dict(state))

    def _try(self, action: Callable[[Writer], None]) -> bool:
        if self._writer is None and self._clock() < self._retry_at:
            return False
        try:
            if self._writer is None:
                self._writer = self._make()
            action(self._writer)
        except OSError as error:
            self._writer = None
            self._retry_at = self._clock() + self._retry_seconds
            if not self._warned:
                _log.warning(
                    "cannot write %s: %s. Training goes on, summaries are dropped until it works again (next attempt "
                    "in %g s)",
                    self._what,
                    error,
                    self._retry_seconds,
                )
                self._warned = True
            return False
        return True
