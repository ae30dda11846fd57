"""What a run can be told from outside while it goes on.

SIGINT, SIGTERM    finish the iteration, save, leave; a second one leaves at once
SIGUSR1            write down where the run and its worker processes are: stacks.txt in the run folder, stderr
SIGUSR2            save a checkpoint after this iteration
SIGHUP             evaluate after this iteration; so does a file `evaluate` in the run folder, within a moment
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self

from alfish.child import Child

STACKS = "stacks.txt"
EVALUATE = "evaluate"
_LOOK_SECONDS = 0.1  # from one look for that file to the next
_STOP: dict[signal.Signals, Any] = {  # and what they do where nobody has said otherwise
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


class RunSignals:
    """While inside, signals are remembered, for the trainer to heed between iterations.

    Only the main thread can take signals; elsewhere nothing changes. Handlers are restored at the end.

    Args:
        folder: of the run.
        grace_period: seconds from the first SIGINT or SIGTERM until the process leaves by itself.
        last_words: what to say then.
    """

    def __init__(self, folder: Path, grace_period: float, last_words: Callable[[], str]) -> None:
        self.received: signal.Signals | None = None  # the one that ends the run
        self._folder = folder
        self._evaluate_file = folder / EVALUATE
        self._next_look = 0.0  # at the file
        self._grace_period = grace_period
        self._last_words = last_words
        self._num_shown = 0  # characters of the file with the stacks that stderr has got
        self._wishes: set[signal.Signals] = set()
        self._before: dict[signal.Signals, Any] = {}
        self._stacks: IO[str] | None = None
        self._watch: _Watch | None = None

    def takes_checkpoint_wish(self) -> bool:
        """Whether a checkpoint was asked for since the last time."""
        return self._takes(signal.SIGUSR2)

    def takes_evaluation_wish(self) -> bool:
        """Whether an evaluation was asked for since the last time."""
        now = time.monotonic()
        if now >= self._next_look:  # asking the disk after every iteration would cost short ones more than a hundredth
            self._next_look = now + _LOOK_SECONDS
            if self._evaluate_file.exists():
                self._evaluate_file.unlink(missing_ok=True)
                self._wishes.add(signal.SIGHUP)
        return self._takes(signal.SIGHUP)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._watch = _Watch(self._grace_period, self._leave)
            self._handle(self._stop, *_STOP)
            self._handle(self._wish, signal.SIGUSR2, signal.SIGHUP)
            self._handle(self._show_stacks, signal.SIGUSR1)
            # Written by faulthandler, which needs no interpreter, so that a run that hangs in C code says where, too;
            # it calls the handler above afterwards.
            self._stacks = (self._folder / STACKS).open("a")
            self._num_shown = self._stacks.tell()
            faulthandler.register(signal.SIGUSR1, file=self._stacks, all_threads=True, chain=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.end()
            self._watch = None
        if self._stacks is not None:
            faulthandler.unregister(signal.SIGUSR1)
            self._stacks.close()
            self._stacks = None
            file = self._folder / STACKS
            if file.stat().st_size == 0:
                file.unlink()
        self._restore(*self._before)

    def _handle(self, handler: Callable[[int, FrameType | None], None], *kinds: signal.Signals) -> None:
        for kind in kinds:
            self._before[kind] = signal.signal(kind, handler)

    def _restore(self, *kinds: signal.Signals) -> None:
        for kind in kinds:
            signal.signal(kind, self._before.pop(kind))

    def _takes(self, kind: signal.Signals) -> bool:
        was_wished = kind in self._wishes
        self._wishes.discard(kind)
        return was_wished

    def _wish(self, number: int, frame: FrameType | None) -> None:
        self._wishes.add(signal.Signals(number))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        assert self._watch is not None
        self.received = signal.Signals(number)
        for kind, usual in _STOP.items():  # the second one acts as usual
            if self._before[kind] == signal.SIG_IGN:  # as a shell does for what it starts in the background
                signal.signal(kind, usual)
            else:
                self._restore(kind)
        self._watch.begin()

    def _leave(self) -> None:
        assert self.received is not None
        name, seconds = self.received.name, self._grace_period
        _say(f"{name}: not done after {seconds:g} s, leaving without saving. {self._last_words()}")
        os._exit(128 + self.received)  # the main thread is stuck; worker processes end with this one

    def _show_stacks(self, number: int, frame: FrameType | None) -> None:
        """After faulthandler has written the stacks of this process: those of the others, and everything on stderr."""
        assert self._stacks is not None
        self._stacks.write(f"(process {os.getpid()}, {time.strftime('%Y-%m-%d %H:%M:%S')})\n\n")
        for child in Child.living():
            self._stacks.write(f"{child.stack() or 'no answer'}\n({child.name}, process {child.pid})\n\n")
        self._stacks.flush()
        text = (self._folder / STACKS).read_text()
        _say(text[self._num_shown :])
        self._num_shown = len(text)


class _Watch:
    """Calls `leave` if the time between `begin` and `end` gets too long. In a thread of its own.

    `begin` is for signal handlers: it takes no lock, which the code that was interrupted might hold.
    """

    def __init__(self, seconds: float, leave: Callable[[], None]) -> None:
        self._seconds = seconds
        self._leave = leave
        self._reading, self._writing = os.pipe()
        self._thread = threading.Thread(target=self._wait, name="grace period", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        os.write(self._writing, b"!")

    def end(self) -> None:
        os.close(self._writing)
        self._thread.join()
        os.close(self._reading)

    def _wait(self) -> None:
        has_begun = bool(os.read(self._reading, 1))  # nothing: the other end was closed
        if has_begun and not select.select([self._reading], [], [], self._seconds)[0]:
            self._leave()


def _say(text: str) -> None:
    """Past Python's buffers, which a handler or another thread may have interrupted."""
    with suppress(OSError, ValueError):
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{text}\n".encode())
