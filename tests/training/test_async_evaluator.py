"""What training may rely on, whatever the evaluating process does. Here it is played by an object, but once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, ClassVar

import pytest

from alfish.errors import AlfishError, ConfigError, WorkerLost
from alfish.seeding import Seeds
from alfish.training import async_evaluator
from alfish.training.async_evaluator import MAX_RESTARTS, AsyncEvaluator
from alfish.training.evaluation_worker import Failed, Played, Ready
from alfish.training.evaluator import Evaluated
from alfish.training.snapshot import SharedParameters
from tests.training.test_snapshot import Actor, values

KILLED = WorkerLost("the evaluator (process 7) was killed by signal 9 (SIGKILL)")


class Process:
    """Stands for the child: takes a request when it is sent, answers when the test says so."""

    all: ClassVar[list[Process]] = []

    def __init__(self, name: str, main: Callable[..., None], arguments: Any) -> None:
        self.parameters = arguments[2]
        self.answers: deque[Any] = deque()
        self.requests: deque[float] = deque()  # the value of the parameters when they were loaded
        self.is_alive = True
        Process.all.append(self)

    def send(self, slot: int) -> None:
        algorithm = Actor()
        self.parameters[slot].load_into(algorithm)
        self.requests.append(*values(algorithm))

    def poll(self, timeout: float = 0.0) -> bool:
        return bool(self.answers)

    def receive(self, timeout: float | None) -> Any:
        answer = self.answers.popleft()
        if isinstance(answer, AlfishError):
            raise answer
        return answer

    def stack(self, timeout: float) -> str:
        return "in step of MyEnv"

    def kill(self) -> None:
        self.is_alive = False

    stop = kill

    def is_ready(self) -> None:
        self.answers.append(Ready({}))

    def plays(self) -> None:
        self.answers.append(Played((self.requests.popleft(),), (1,), {}))


class Run:
    """An evaluator, the algorithm that it evaluates, and the time."""

    def __init__(self) -> None:
        Process.all.clear()
        self.now = 0.0
        self.algorithm: Any = Actor()
        setup: Any = None
        self.evaluator = AsyncEvaluator(setup, self.algorithm, Seeds(1), 60.0, lambda: self.now)

    @property
    def process(self) -> Process:
        return Process.all[-1]

    def submit(self, iteration: int) -> None:
        self.algorithm.fill(float(iteration))
        self.evaluator.submit(Evaluated(iteration, 10 * iteration, 0), self.algorithm)
        self.algorithm.fill(-1.0)  # training goes on

    def take(self) -> list[tuple[int, float]]:
        """Iteration, and the value of the parameters that were evaluated."""
        return [(finished.of.iteration, finished.returns[0]) for finished in self.evaluator.take()]

    def become_ready(self) -> None:
        self.process.is_ready()
        assert self.take() == []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(async_evaluator, "Child", Process)
    started = Run()
    yield started
    started.evaluator.close()
    started.evaluator.close()
    assert not any(process.is_alive for process in Process.all)


def test_a_request_waits_for_the_process_to_be_ready(run: Run) -> None:
    run.submit(1)
    assert run.evaluator.pending == Evaluated(1, 10, 0)
    assert not run.process.requests
    run.become_ready()
    run.process.plays()
    assert run.take() == [(1, 1.0)]
    assert run.evaluator.pending is None


def test_each_is_played_with_the_parameters_of_its_moment_and_the_newest_is_never_lost(run: Run) -> None:
    run.become_ready()
    for iteration in (1, 2, 3, 4):  # all while the first one is played
        run.submit(iteration)
        assert run.evaluator.pending == Evaluated(iteration, 10 * iteration, 0)
    assert list(run.process.requests) == [1.0]
    run.process.plays()
    assert run.take() == [(1, 1.0)]
    run.submit(5)
    run.process.plays()
    assert run.take() == [(4, 4.0)]
    run.process.plays()
    assert run.take() == [(5, 5.0)]
    assert run.evaluator.counts == {"ReplacedRequests": 2, "EvaluatorRestarts": 0}


def test_a_process_that_died_is_replaced_and_its_request_repeated(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run.become_ready()
    run.submit(1)
    run.submit(2)
    run.process.answers.append(KILLED)
    assert run.take() == []
    assert f"{KILLED}\nIt is started again (1 of 3 times)" in caplog.text
    assert len(Process.all) == 2
    run.become_ready()
    run.process.plays()
    assert run.take() == [(1, 1.0)]
    run.process.plays()
    assert run.take() == [(2, 2.0)]
    assert run.evaluator.counts == {"ReplacedRequests": 0, "EvaluatorRestarts": 1}


def test_a_process_that_hangs_is_replaced_and_tells_where_it_hangs(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run.become_ready()
    run.now = 1000.0  # being idle is no crime
    assert run.take() == []
    run.submit(1)
    run.now = 1060.0
    assert run.take() == []
    assert not caplog.text
    run.now = 1060.5
    assert run.take() == []
    assert "did not answer within 60 s; raise TrainerConfig.eval_timeout" in caplog.text
    assert "in step of MyEnv" in caplog.text
    assert not Process.all[0].is_alive
    run.become_ready()
    run.process.plays()
    assert run.take() == [(1, 1.0)]


def test_a_process_that_does_not_start_in_time_is_replaced_too(run: Run) -> None:
    run.now = 61.0
    assert run.take() == []
    assert len(Process.all) == 2


def test_when_it_is_lost_too_often_there_are_only_warnings(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run.become_ready()
    run.submit(1)
    for _ in range(MAX_RESTARTS + 1):
        run.process.answers.append(KILLED)
        assert run.take() == []
    assert len(Process.all) == MAX_RESTARTS + 1
    assert "that is enough: training goes on without" in caplog.text
    assert run.evaluator.pending is None
    run.evaluator.wait()
    run.evaluator.wait_until_ready()
    run.submit(2)
    assert "no evaluation of iteration 2: the evaluator was lost too often" in caplog.text
    assert run.evaluator.pending is None
    assert run.take() == []


def test_an_evaluation_that_raises_is_warned_of_and_not_repeated(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run.become_ready()
    run.submit(1)
    run.submit(2)
    run.process.answers.append(Failed("the wheel came off"))
    assert run.take() == []
    assert "the evaluation of iteration 1 failed: the wheel came off" in caplog.text
    run.process.requests.clear()
    run.become_ready()
    run.process.plays()
    assert run.take() == [(2, 2.0)]
    assert len(Process.all) == 1


def test_a_wrong_configuration_is_an_error_at_the_start_and_a_warning_later(run: Run) -> None:
    run.process.answers.append(ConfigError("no such environment"))
    with pytest.raises(ConfigError, match="no such environment"):
        run.evaluator.wait_until_ready()
    run.become_ready()
    run.process.answers.append(ConfigError("the file is gone"))
    assert run.take() == []
    assert len(Process.all) == 2


def test_a_process_that_never_comes_to_work_is_told_with_what_may_be_the_cause(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    run.process.answers.append(WorkerLost("the evaluator (process 7) left with exit code 1"))
    assert run.take() == []
    assert "A script that trains must do so below `if __name__ == '__main__':`" in caplog.text


def test_what_is_given_up_is_not_pending(run: Run) -> None:
    run.become_ready()
    run.submit(1)
    run.submit(2)
    run.evaluator.give_up()
    assert run.evaluator.pending is None
    assert run.take() == []


def play(pipe: Connection, setup: None, root_seed: int, parameters: tuple[SharedParameters, ...]) -> None:
    algorithm = Actor()
    pipe.send(Ready({}))
    while True:
        parameters[pipe.recv()].load_into(algorithm)
        pipe.send(Played(tuple(values(algorithm)), (1,), {}))


def test_a_real_process_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_evaluator, "evaluate_on_request", play)
    algorithm: Any = Actor(value=1.0)
    setup: Any = None
    begin = time.monotonic()
    evaluator = AsyncEvaluator(setup, algorithm, Seeds(1), 60.0)
    evaluator.submit(Evaluated(1, 10, 0), algorithm)
    assert evaluator.take() == []
    asked = time.monotonic() - begin
    algorithm.fill(2.0)
    finished = []
    while evaluator.pending is not None:
        evaluator.wait()
        finished += evaluator.take()
    assert asked < (time.monotonic() - begin) / 2  # the process has to import torch before it can answer
    assert [each.returns for each in finished] == [(1.0,)]
    evaluator.close()
