from __future__ import annotations

import logging

import pytest

from alfish.errors import EnvironmentFault, WorkerLost
from alfish.seeding import Seeds
from alfish.training import unroll_supervisor
from alfish.training.unroll_supervisor import MAX_RESTARTS, UnrollSupervisor
from alfish.types import StepType
from tests.training.fake_worker import FakeChild, row


class Parameters:
    version = 1


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> UnrollSupervisor:
    """Of two environments, with a queue of three."""
    monkeypatch.setattr(FakeChild, "made", [], raising=False)
    monkeypatch.setattr(unroll_supervisor, "Child", FakeChild)
    return UnrollSupervisor(1, 2, row([0.0, 0.0]), 3, None, Seeds(7), Parameters(), 10.0, clock)  # type: ignore[arg-type]


def worker() -> FakeChild:
    return FakeChild.made[-1]


def begun(supervisor: UnrollSupervisor) -> UnrollSupervisor:
    worker().begin(1.0, 2.0)
    supervisor.look()
    return supervisor


def test_rows_go_on_from_where_the_worker_began(supervisor: UnrollSupervisor) -> None:
    assert supervisor.is_starting
    assert supervisor.available == 0
    begun(supervisor)
    assert not supervisor.is_starting
    worker().act(3.0, 4.0)
    worker().act(5.0, 6.0)
    begin, rows = supervisor.take(2)
    assert begin.reward.tolist() == [1.0, 2.0]
    assert rows.time_step.reward.tolist() == [[3.0, 4.0], [5.0, 6.0]]
    assert supervisor.time_step.reward.tolist() == [5.0, 6.0]


def test_a_lost_worker_is_replaced_and_its_episodes_end_by_a_time_limit(
    supervisor: UnrollSupervisor, caplog: pytest.LogCaptureFixture
) -> None:
    begun(supervisor)
    worker().act(3.0, 4.0)
    supervisor.take(1)
    worker().act(5.0, 6.0)
    worker().act(7.0, 8.0)
    first = worker()
    first.die()
    supervisor.look()
    assert supervisor.num_restarts == 1
    assert first.is_stopped
    assert worker().share.root_seed != first.share.root_seed, "other episodes than before"
    assert "unroll worker 1 (process 4711) was killed by signal 9" in caplog.text
    assert "started again (1 of 3). Lost: 4 environment steps" in caplog.text

    assert supervisor.available == 0
    worker().begin(10.0, 20.0)
    supervisor.look()
    worker().act(11.0, 21.0)
    begin, rows = supervisor.take(2)
    assert begin.reward.tolist() == [3.0, 4.0], "the last time step that was taken"
    assert begin.is_last().all()
    assert begin.discount.tolist() == [1.0, 1.0]
    assert rows.time_step.step_type.tolist() == [[StepType.FIRST] * 2, [StepType.MID] * 2]
    assert rows.time_step.reward.tolist() == [[10.0, 20.0], [11.0, 21.0]]
    assert supervisor.available == 0


def test_an_episode_that_was_over_keeps_its_real_end(supervisor: UnrollSupervisor) -> None:
    begun(supervisor)
    worker().act(3.0, 4.0, step_type=StepType.LAST)
    supervisor.take(1)
    worker().die()
    supervisor.look()
    worker().begin(10.0, 20.0)
    supervisor.look()
    begin, _ = supervisor.take(1)
    assert begin.is_last().all()
    assert begin.discount.tolist() == [0.0, 0.0]


def test_a_worker_that_dies_before_its_first_row_leaves_nothing_to_end(supervisor: UnrollSupervisor) -> None:
    worker().die()
    supervisor.look()
    begun(supervisor)
    assert supervisor.time_step.is_first().all()
    assert supervisor.available == 0


def test_a_worker_that_is_lost_again_and_again_is_given_up(supervisor: UnrollSupervisor) -> None:
    for _ in range(MAX_RESTARTS):
        begun(supervisor)
        worker().die()
        supervisor.look()
    worker().die()
    with pytest.raises(WorkerLost, match=r"(?s)unroll worker 1.*signal 9.*started again 3 times"):
        supervisor.look()
    assert all(child.is_stopped for child in FakeChild.made)


def test_what_an_environment_did_is_told_as_it_is(supervisor: UnrollSupervisor) -> None:
    begun(supervisor)
    worker().die(EnvironmentFault("Maze-v0: environment 3 raised"))
    with pytest.raises(EnvironmentFault, match="environment 3 raised"):
        supervisor.look()


def test_a_worker_that_makes_no_step_for_too_long_is_replaced_and_says_where_it_was(
    supervisor: UnrollSupervisor, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    begun(supervisor)
    clock.now += 9
    worker().act(3.0, 4.0)
    supervisor.look()
    clock.now += 9
    supervisor.look()
    assert supervisor.num_restarts == 0
    clock.now += 2
    supervisor.look()
    assert supervisor.num_restarts == 1
    assert "made no step within 10 s" in caplog.text
    assert "TrainerConfig.unroll_timeout" in caplog.text
    assert "maze.py" in caplog.text


def test_a_worker_that_does_not_start_is_replaced(
    supervisor: UnrollSupervisor, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.now += 11
    supervisor.look()
    assert supervisor.num_restarts == 1
    assert "did not start within 10 s" in caplog.text


@pytest.mark.parametrize("reason", ["full", "no parameters"])
def test_a_worker_that_has_to_wait_does_not_hang(
    supervisor: UnrollSupervisor, clock: Clock, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    begun(supervisor)
    if reason == "full":
        for number in range(3):
            worker().act(number, number)
    else:
        supervisor._parameters.version = 0  # type: ignore[misc]
    for _ in range(3):
        clock.now += 11
        supervisor.look()
    assert not caplog.text


def test_late_steps_count_over_all_workers(supervisor: UnrollSupervisor) -> None:
    begun(supervisor)
    worker().ring.count_late_step()
    worker().die()
    supervisor.look()
    worker().ring.count_late_step()
    assert supervisor.late_steps == 2
