"""Evaluation in a process of its own: training does not wait for it, whatever becomes of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.child import Child
from alfish.config.carry import merge_operative
from alfish.errors import AlfishError, ConfigError
from alfish.seeding import Seeds
from alfish.training.evaluation_worker import Failed, Played, Ready, evaluate_on_request
from alfish.training.evaluator import Evaluated, Finished
from alfish.training.snapshot import SharedParameters
from alfish.training.worker_config import WorkerConfig

MAX_RESTARTS = 3
_LOOK_AGAIN = 0.2  # seconds
_HINT = (
    "It never came to work. A script that trains must do so below `if __name__ == '__main__':`, because worker "
    "processes read it, too. TrainerConfig.async_eval = False does without a process."
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Request:
    """An evaluation of parameters as they were when it was asked for."""

    of: Evaluated
    slot: int  # which of the shared parameters hold them


class AsyncEvaluator:
    """Plays the episodes of an `Evaluator` with snapshots of the parameters, in another process.

    One request is played, one may wait. A newer one takes the place of the waiting one, so that the newest is never
    lost. A process that dies or hangs is replaced, `MAX_RESTARTS` times in a run, and its request repeated. After
    that, and when an environment raises, there are warnings in place of results.

    Args:
        setup: the configuration.
        algorithm: says which parameters there are.
        seeds: of the run.
        timeout: seconds that an evaluation, or the start of the process, may take.
        clock: a monotonic clock.
    """

    def __init__(
        self,
        setup: WorkerConfig,
        algorithm: RLAlgorithm,
        seeds: Seeds,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_replaced = 0  # requests that a newer one took the place of
        self._num_restarts = 0
        self._parameters = (SharedParameters(algorithm), SharedParameters(algorithm))
        self._arguments = (setup, seeds.root, self._parameters)
        self._timeout = timeout
        self._clock = clock
        self._running: _Request | None = None
        self._waiting: _Request | None = None
        self._finished: list[Finished] = []
        self._was_ready = False
        self._child: Child | None = None  # None: it was lost too often
        self._start()

    @property
    def counts(self) -> dict[str, int]:
        return {"ReplacedRequests": self._num_replaced, "EvaluatorRestarts": self._num_restarts}

    @property
    def pending(self) -> Evaluated | None:
        """The newest evaluation whose result is still to come."""
        request = self._waiting or self._running
        return None if request is None else request.of

    def submit(self, evaluated: Evaluated, algorithm: RLAlgorithm) -> None:
        """Asks for an evaluation of the parameters as they are now."""
        if self._child is None:
            _log.warning("no evaluation of iteration %d: the evaluator was lost too often", evaluated.iteration)
            return
        slot = 1 - self._running.slot if self._running is not None else 0
        if self._waiting is not None:
            self._num_replaced += 1
        self._parameters[slot].publish(algorithm)
        self._waiting = _Request(evaluated, slot)
        self._send_next()

    def take(self) -> list[Finished]:
        """What was finished since the last time. Does not wait."""
        self._attend()
        finished, self._finished = self._finished, []
        return finished

    def wait(self) -> None:
        """Returns when there may be something to take, after a fraction of a second at the latest."""
        if self._child is not None:
            self._child.poll(_LOOK_AGAIN)

    def wait_until_ready(self) -> None:
        """Waits until the process has told which bindings it uses; it starts while other parts of a run are made."""
        while self._child is not None and not self._is_ready:
            self.wait()
            self._attend()

    def give_up(self) -> None:
        """Nothing is pending any more."""
        if self._running is not None and self._child is not None:
            self._child.kill()
            self._child = None
        self._running = self._waiting = None

    def close(self) -> None:
        """Ends the process. Twice is fine."""
        self.give_up()
        if self._child is not None:
            self._child.stop()
            self._child = None

    def _start(self) -> None:
        self._is_ready = False
        self._deadline = self._clock() + self._timeout
        self._child = Child("the evaluator", evaluate_on_request, self._arguments)

    def _attend(self) -> None:
        """Sees what the process has sent, and whether it still does what it should."""
        while self._child is not None and self._child.poll():
            self._receive(self._child)
        if self._child is not None and self._is_late():
            stack = self._child.stack(timeout=1.0)
            self._replace(
                f"the evaluator did not answer within {self._timeout:g} s; raise TrainerConfig.eval_timeout if it is "
                f"only slow. It is here:\n{stack or '(it does not say)'}"
            )

    def _is_late(self) -> bool:
        is_busy = self._running is not None or not self._is_ready
        return is_busy and self._clock() > self._deadline

    def _send_next(self) -> None:
        if self._child is None or not self._is_ready or self._running is not None or self._waiting is None:
            return
        self._running, self._waiting = self._waiting, None
        self._send(self._running)

    def _send(self, request: _Request) -> None:
        assert self._child is not None
        self._deadline = self._clock() + self._timeout
        try:
            self._child.send(request.slot)
        except AlfishError as error:
            self._replace(str(error))

    def _receive(self, child: Child) -> None:
        try:
            message = child.receive(0)
        except AlfishError as error:
            if isinstance(error, ConfigError) and not self._was_ready:
                raise  # it cannot work, and a user would rather know now than after the run
            self._replace(str(error))
            return
        if isinstance(message, Ready):
            self._is_ready = self._was_ready = True
            merge_operative(message.used)
            if self._running is not None:  # the process before this one was lost with it
                self._send(self._running)
            else:
                self._send_next()
        elif isinstance(message, Played):
            assert self._running is not None
            merge_operative(message.used)
            self._finished.append(Finished(self._running.of, message.returns, message.lengths))
            self._running = None
            self._send_next()
        elif isinstance(message, Failed):
            assert self._running is not None
            # Equal parameters play equal episodes: it would fail again.
            _log.warning("the evaluation of iteration %d failed: %s", self._running.of.iteration, message.text)
            self._running, self._is_ready = None, False
            self._deadline = self._clock() + self._timeout

    def _replace(self, reason: str) -> None:
        """Ends the process, says why, and starts another one, unless that was done too often."""
        assert self._child is not None
        self._child.kill()
        if not self._was_ready:
            reason += f"\n{_HINT}"
        if self._num_restarts < MAX_RESTARTS:
            self._num_restarts += 1
            _log.warning("%s\nIt is started again (%d of %d times)", reason, self._num_restarts, MAX_RESTARTS)
            self._start()
            return
        self._child = self._running = self._waiting = None
        _log.warning(
            "%s\nIt was started again %d times, that is enough: training goes on without", reason, MAX_RESTARTS
        )
