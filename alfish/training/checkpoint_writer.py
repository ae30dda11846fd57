"""Writing checkpoints while training goes on."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from copy import copy
from typing import Any

import torch

from alfish.errors import StorageFault
from alfish.replay.memory import available_memory
from alfish.training.checkpoint import CheckpointFolder, num_bytes, refuse_unloadable

_PATIENCE = 600.0  # seconds that a write may take
_GIVING_WAY = 15  # how much nicer the writing thread is than the others
_USABLE = 0.5  # of the memory that is available, for the copy


class CheckpointWriter:
    """Copies the state of a run, and writes the copy in a thread of its own; one at a time.

    A fault of the disk is raised where the end of the write is asked for. The thread does not keep the process alive;
    what it leaves unfinished then is no checkpoint, and swept away at the next start.

    Args:
        folder: where to.
    """

    def __init__(self, folder: CheckpointFolder) -> None:
        self._folder = folder
        self._thread: threading.Thread | None = None
        self._began = 0.0
        self._error: Exception | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a write was begun whose end was not taken yet."""
        return self._thread is not None

    def begin(
        self, iteration: int, parts: dict[str, dict[str, Any]], about: dict[str, Any]
    ) -> dict[str, dict[str, Any]] | None:
        """Begins to write; afterwards the state may change. The arguments are those of `CheckpointFolder.save`.

        Returns the copy that is written. When there is too little memory for one, it writes before it returns None.
        """
        if self.is_busy:
            raise RuntimeError("a checkpoint is being written; take its end first")
        refuse_unloadable(parts)
        available = available_memory()
        is_copied = available is None or num_bytes(parts) <= _USABLE * available
        written = copied(parts) if is_copied else parts
        self._error = None
        self._began = time.monotonic()
        arguments = (iteration, written, about)
        self._thread = threading.Thread(target=self._write, args=arguments, name="checkpoint writer", daemon=True)
        self._thread.start()
        if is_copied:
            return written
        self._join()
        return None

    def has_ended(self, patience: float = 0.0) -> bool:
        """Whether the write is over, waiting for it for `patience` seconds. Takes the end: raises what went wrong."""
        assert self._thread is not None
        self._thread.join(patience)
        if self._thread.is_alive():
            return False
        self._thread = None
        if self._error is not None:
            raise self._error
        return True

    def wait(self) -> None:
        """Waits for the end of the write, and takes it. A disk that does not answer is a fault."""
        self._join()
        self.has_ended()

    def _join(self) -> None:
        assert self._thread is not None
        self._thread.join(max(0.0, self._began + _PATIENCE - time.monotonic()))
        if self._thread.is_alive():
            raise StorageFault(
                f"a checkpoint is not written after {_PATIENCE:g} s; does {self._folder.path} answer? "
                f"{self._folder.last_words()}"
            )

    def _write(self, iteration: int, parts: dict[str, dict[str, Any]], about: dict[str, Any]) -> None:
        _give_way()
        try:
            self._folder.save(iteration, parts, about)
        except Exception as error:
            self._error = error


def _give_way() -> None:
    """From now on this thread takes what the others leave of the processors; where threads have priorities."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # a sandbox may forbid it
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _GIVING_WAY)


def copied(value: Any) -> Any:
    """A copy on the CPU that shares no tensor with the original; of nested dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        same = copy(value)  # the state_dict of a module keeps the versions of its parts in an attribute
        same.update({key: copied(child) for key, child in value.items()})
        return same
    if isinstance(value, (list, tuple)):
        return type(value)(copied(child) for child in value)
    return value
