"""The process of one environment, as its parent sees it."""

from __future__ import annotations

import select
import time
from collections.abc import Iterable
from typing import Any

import cloudpickle

from alfish.child import Child
from alfish.config import carry
from alfish.environments.episodes import when
from alfish.environments.recipe import ScopedRecipe
from alfish.environments.shared_rows import SharedRows
from alfish.environments.worker import serve
from alfish.errors import AlfishError, EnvironmentFault, WorkerLost

# Building and resetting a heavy simulator takes longer than stepping it.
_RESET_PATIENCE = 5.0
_START_SECONDS = 60.0
# A process that dies closes its pipe, which is noticed at once. If it forked, the pipe stays open: then this often.
_LIVENESS_SECONDS = 0.5
_STOP_SECONDS = 1.0


class WorkerHandle:
    """A process that serves one environment. It is given a command, and `wait_for` waits for its answer.

    Args:
        recipe: how the environment is built.
        rows: the shared memory.
        row: the row of this process.
        step_timeout: seconds that a step may take; a reset may take five times as long.
    """

    def __init__(self, recipe: ScopedRecipe, rows: SharedRows, row: int, step_timeout: float) -> None:
        self.row = row
        self.is_busy = False
        self.fault = ""  # what went wrong with the last command
        self._recipe = recipe
        self._rows = rows
        self._timeout = step_timeout
        self._name = recipe.recipe.env_name
        self._episode = self._steps = 0
        self._is_ready = False
        self._child = Child(f"{self._name}: environment {row}", serve, (cloudpickle.dumps(recipe), rows, row))
        self._ready_by = time.monotonic() + max(_START_SECONDS, _RESET_PATIENCE * step_timeout)
        self.deadline = self._ready_by

    def wait_until_ready(self) -> None:
        """Raises what the environment raises when it is built."""
        try:
            self._greet(max(0.0, self._ready_by - time.monotonic()))
        except TimeoutError as error:
            raise EnvironmentFault(f"{self._child.name}: its process did not start.\n{self._child.stack()}") from error
        except WorkerLost as lost:
            raise EnvironmentFault(f"{lost}\n  while it was built") from lost

    def reset(self, root: int, index: int, episode: int) -> None:
        """Starts an episode of environment `index`."""
        self._child.name = f"{self._name}: environment {index}"
        self._episode, self._steps = episode, 0
        self._command(b"reset %d %d %d" % (root, index, episode), _RESET_PATIENCE * self._timeout)

    def step(self) -> None:
        """Takes the action that is in shared memory."""
        self._steps += 1
        self._command(b"step", self._timeout)

    def render(self) -> Any:
        """The picture that the environment makes."""
        if not self._is_ready:
            self.wait_until_ready()
        self._child.pipe.send_bytes(b"render")
        try:
            return self._child.receive(_RESET_PATIENCE * self._timeout)
        except (TimeoutError, WorkerLost) as error:
            raise EnvironmentFault(f"{error}\n  while rendering\n{self._child.stack()}".rstrip()) from error

    def fileno(self) -> int:
        return self._child.pipe.fileno()

    def take_answer(self) -> None:
        """Takes what the process has sent, or notes that it is dead; when it was the answer, it is no longer busy."""
        try:
            if not self._is_ready:
                self._greet(0.0)
                return
            self.fault = self._child.pipe.recv_bytes().decode()
        except (AlfishError, EOFError, OSError) as error:
            self.fault = self._explain_death(error)
        self.is_busy = False

    def give_up_if_late(self) -> None:
        """Notes a process that is dead or took longer than it may."""
        if time.monotonic() >= self.deadline:
            self.fault = self._explain_delay()
            self.is_busy = False
        elif not self._child.is_alive:
            self.fault = self._explain_death(self._child.loss())
            self.is_busy = False

    def restarted(self) -> WorkerHandle:
        """A new process in place of this one."""
        self.kill()
        return WorkerHandle(self._recipe, self._rows, self.row, self._timeout)

    def leave(self) -> None:
        """Asks the process to end; `stop` sees to it."""
        self._child.pipe.close()

    def stop(self, deadline: float) -> None:
        """Ends the process, at the latest when the monotonic clock shows `deadline`."""
        self._child.stop(max(0.0, deadline - time.monotonic()))

    def kill(self) -> None:
        self._child.kill()

    def _command(self, command: bytes, patience: float) -> None:
        now = time.monotonic()
        self.deadline = patience + (now if self._is_ready else max(now, self._ready_by))
        self.is_busy = True
        self.fault = ""
        try:
            self._child.pipe.send_bytes(command)
        except OSError:
            return  # it is dead, which is noticed when its answer is waited for

    def _greet(self, timeout: float) -> None:
        operative = self._child.receive(timeout)
        if operative:
            carry.merge_operative(operative)
        self._is_ready = True

    def _explain_death(self, error: Exception) -> str:
        loss = error if isinstance(error, AlfishError) else self._child.loss()
        return f"{loss}\n  {self._when()}"

    def _explain_delay(self) -> str:
        allowed = self._timeout if self._steps else _RESET_PATIENCE * self._timeout
        return (
            f"{self._child.name} did not answer within {allowed:g} s\n  {self._when()}\n"
            f"  If it is only slow, raise create_environment.env_step_timeout (now {self._timeout:g} s; a reset may "
            f"take {_RESET_PATIENCE:g} times as long). Where it is:\n{self._child.stack().rstrip()}"
        )

    def _when(self) -> str:
        leaves = [array[self.row] for array in self._rows.actions]
        return when(self._episode, self._steps, leaves[0] if len(leaves) == 1 else leaves)


def wait_for(workers: Iterable[WorkerHandle], until_fault: bool = False) -> None:
    """Until each has answered; what went wrong is in its `fault`.

    Args:
        workers: those that are not busy have answered.
        until_fault: do not wait for the others when one has failed.
    """
    pending = {worker.fileno(): worker for worker in workers if worker.is_busy}
    poll = select.poll()
    for descriptor in pending:
        poll.register(descriptor, select.POLLIN)
    patience = _milliseconds(pending.values())
    while pending:
        ready = [descriptor for descriptor, _ in poll.poll(patience)]
        for descriptor in ready or list(pending):
            worker = pending[descriptor]
            if ready:
                worker.take_answer()
            else:
                worker.give_up_if_late()
            if not worker.is_busy:
                poll.unregister(descriptor)
                del pending[descriptor]
            if worker.fault and until_fault:
                return
        if not ready:
            patience = _milliseconds(pending.values())


def _milliseconds(workers: Iterable[WorkerHandle]) -> float:
    """How long to wait before somebody may be late, or should be looked after."""
    left = min((worker.deadline for worker in workers), default=0.0) - time.monotonic()
    return 1000.0 * min(max(left, 0.0), _LIVENESS_SECONDS)


def stop_all(workers: Iterable[WorkerHandle]) -> None:
    """Ends the processes together, with a second to do so."""
    workers = list(workers)
    for worker in workers:
        worker.leave()
    deadline = time.monotonic() + _STOP_SECONDS
    for worker in workers:
        worker.stop(deadline)
