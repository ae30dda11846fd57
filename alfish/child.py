"""Child processes that die with their parent and never keep it waiting.

Standard library only: a worker that steps an environment shall not import torch for this.
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any
from weakref import WeakSet

from alfish import errors
from alfish.errors import AlfishError, WorkerLost

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 1.0
# Terminals and schedulers send these to whole groups of processes.
_FOR_THE_PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)
_NOT_BEFORE_THE_START = (*_FOR_THE_PARENT, signal.SIGUSR1)

_living: WeakSet[Child] = WeakSet()


class Child:
    """A spawned process that runs `main(pipe, *arguments)`, and the pipe to it.

    It dies when this process does, also in the middle of a user's code, and it ignores Ctrl-C, SIGTERM and
    SIGHUP, which reach whole process groups: the parent decides when it stops. What it raises comes home as text.

    Start children from a thread that lives as long as they shall: on Linux they die with that thread.

    Args:
        name: for messages, e.g. "the evaluator".
        main: what the child does; a function that can be imported. When its pipe is closed, it should return.
        arguments: of `main`, picklable.
    """

    def __init__(self, name: str, main: Callable[..., None], arguments: Sequence[Any] = ()) -> None:
        self.name = name
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self._stacks, stacks_end = spawn.Pipe(duplex=False)
        self._process = spawn.Process(
            target=_run, args=(os.getpid(), main, theirs, stacks_end, tuple(arguments)), name=name
        )
        with _held_back():
            self._process.start()
        # Python joins every process that is left when it exits; this one may never end by itself. It is not a daemon,
        # which would end too, because daemons may have no children of their own.
        Finalize(self, _end, args=(self._process,), exitpriority=10)
        _living.add(self)
        theirs.close()
        stacks_end.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def sentinel(self) -> int:
        """Ready, in the sense of `multiprocessing.connection.wait`, when the process has ended."""
        return self._process.sentinel

    def send(self, message: Any) -> None:
        """Raises `WorkerLost` when nobody is there to read it."""
        try:
            self.pipe.send(message)
        except (BrokenPipeError, ConnectionError, OSError) as error:
            raise self.loss() from error

    def poll(self, timeout: float = 0.0) -> bool:
        """Whether `receive` would return, or raise, at once; waits up to `timeout` seconds for that."""
        return bool(wait([self.pipe, self.sentinel], timeout))

    def receive(self, timeout: float | None) -> Any:
        """The next message.

        Raises:
            TimeoutError: there is none after `timeout` seconds; None: wait as long as the child lives.
            WorkerLost: the child is dead.
            AlfishError: the child raised this, or something else, which comes as a `WorkerLost`.
        """
        if not wait([self.pipe, self.sentinel], timeout):
            raise TimeoutError(f"{self.name} did not answer within {timeout:g} s")
        try:
            if not self.pipe.poll():  # it died, and said nothing more
                raise EOFError
            message = self.pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise self.loss() from error
        if isinstance(message, _Failure):
            raise message.error(self.name)
        return message

    def stack(self, timeout: float = 2.0) -> str:
        """Where the child's threads are now, as text; "" when it does not say."""
        if not self.is_alive:
            return ""
        try:
            os.kill(self.pid, signal.SIGUSR1)
        except ProcessLookupError:
            return ""
        text, deadline = b"", time.monotonic() + timeout
        while True:
            # The first lines may take a while, the others follow at once.
            patience = 0.1 if text else max(0.0, deadline - time.monotonic())
            if not select.select([self._stacks.fileno()], [], [], patience)[0]:
                return text.decode(errors="replace")
            received = os.read(self._stacks.fileno(), 65536)
            if not received:
                return text.decode(errors="replace")
            text += received

    @staticmethod
    def living() -> list[Child]:
        """The children of this process, as long as somebody holds them."""
        return [child for child in _living if child.is_alive]

    def stop(self, grace: float = 1.0) -> None:
        """Closes the pipe, waits up to `grace` seconds for the child to leave, then kills it. Twice is fine."""
        self.pipe.close()
        self._process.join(grace)
        self.kill()

    def kill(self) -> None:
        """Ends the child at once. Twice is fine."""
        _living.discard(self)
        _end(self._process)
        self.pipe.close()
        self._stacks.close()

    def loss(self) -> WorkerLost:
        """What became of a child that is dead."""
        self._process.join(_POLL_SECONDS)
        return WorkerLost(f"{self.name} (process {self.pid}) {describe_exit(self._process.exitcode)}")


@contextmanager
def _held_back() -> Iterator[None]:
    """A process that is started inside has these signals held back until it lets them through.

    It spends seconds with imports before it can say what it does about them. This process gets them afterwards.
    """
    resource_tracker.ensure_running()  # starting it would let them through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_BEFORE_THE_START)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: BaseProcess) -> None:
    process.kill()
    process.join()


def describe_exit(code: int | None) -> str:
    """What became of a process with this exit code."""
    if code is None:
        return "closed its pipe"
    if code >= 0:
        return f"left with exit code {code}"
    name = {kind.value: kind.name for kind in signal.Signals}.get(-code, "unnamed")
    return f"was killed by signal {-code} ({name})" + (": out of memory?" if -code == signal.SIGKILL else "")


def die_with_parent(parent: int) -> None:
    """This process gets SIGKILL when the thread that started it ends; elsewhere than on Linux a thread watches."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we could ask to be told
            os._exit(1)
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class _Failure:
    """What a child raised. Exceptions of strangers do not always survive a pickle, so it is text."""

    kind: str
    text: str

    @classmethod
    def of(cls, error: BaseException) -> _Failure:
        if isinstance(error, AlfishError):
            return cls(type(error).__name__, str(error))
        return cls("", "".join(traceback.format_exception(error)).rstrip())

    def error(self, name: str) -> AlfishError:
        kind = getattr(errors, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, AlfishError):
            return kind(self.text)
        return WorkerLost(f"{name} failed:\n{self.text}")


def _run(
    parent: int, main: Callable[..., None], pipe: Connection, stacks: Connection, arguments: tuple[Any, ...]
) -> None:
    die_with_parent(parent)
    for kind in _FOR_THE_PARENT:
        signal.signal(kind, signal.SIG_IGN)
    faulthandler.register(signal.SIGUSR1, file=stacks.fileno(), all_threads=True, chain=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_BEFORE_THE_START)
    try:
        main(pipe, *arguments)
    except (EOFError, BrokenPipeError):
        return  # the parent closed the pipe: it wants nothing more
    except Exception as error:  # a bug is reported too, with its traceback
        pipe.send(_Failure.of(error))
        sys.exit(1)
