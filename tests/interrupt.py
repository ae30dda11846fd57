"""A hook that interrupts its own run."""

from __future__ import annotations

import signal

from alfish.config.registry import configurable
from alfish.training.hooks import Context


@configurable
class Interrupt:
    """Sends a signal at the end of the second iteration.

    Args:
        kind: name of the signal.
        times: how often.
    """

    def __init__(self, kind: str, times: int = 1) -> None:
        self._kind = signal.Signals[kind]
        self._times = times

    def on_iteration_end(self, context: Context) -> None:
        if context.progress.iterations == 2:
            for _ in range(self._times):
                signal.raise_signal(self._kind)  # to this thread, so that none is swallowed by another
