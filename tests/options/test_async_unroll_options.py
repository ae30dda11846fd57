"""How experience is made by worker processes. The environments keep a diary of what happens where and when."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from alfish.errors import WorkerLost
from alfish.training.trainer import Trainer
from tests.options.envs import diary
from tests.options.running import DQN, PPO, Run, refusal, train

WORKERS = """
import tests.options.envs
create_environment.env_name = "tests/Diary-v0"
TrainerConfig.async_unroll = True
TrainerConfig.unroll_length = 1
TrainerConfig.summary_interval = 1
"""
ONE_ENV = "create_environment.num_parallel_environments=1"
IDLE = "no effect, since async_unroll is False"


def pause(trainer: Trainer) -> None:
    """Time for the worker to be ahead."""
    time.sleep(0.1)


def wait_for_three_steps(trainer: Trainer) -> None:
    """Until the worker is so far ahead."""
    deadline = time.monotonic() + 30
    while len(diary()) < trainer.progress.env_steps + 4 and time.monotonic() < deadline:
        time.sleep(0.01)


def run_one(**options: Any) -> Run:
    """A run with one environment."""
    return train(DQN, WORKERS, ONE_ENV, **options)


def test_async_unroll() -> None:
    run = run_one()
    assert run.per_iteration("env_steps") == [1, 1, 1, 1]
    assert len({pid for pid, *_ in diary()} - {os.getpid()}) == 1, "one process acts, and it is not this one"
    assert os.getpid() not in {pid for pid, *_ in diary()}
    assert "1 worker(s) act meanwhile" in run.console


def test_async_unroll_is_refused_where_lag_does_harm() -> None:
    assert "PPOAlgorithm is on-policy" in refusal(PPO, async_unroll=True)


def test_num_unroll_workers() -> None:
    train(DQN, WORKERS, num_unroll_workers=2)
    resets = [pid for pid, *_ in diary("reset") if pid != os.getpid()]
    assert sorted(resets.count(pid) for pid in set(resets)) == [2, 2], "an equal share of the 4 environments each"
    message = refusal(DQN, WORKERS, num_unroll_workers=3, root_dir="no")
    assert "num_unroll_workers = 3 does not divide" in message


def test_max_unroll_length_takes_what_is_there_up_to_it() -> None:
    run = run_one(unroll_length=0, max_unroll_length=3, each=wait_for_three_steps)
    assert run.per_iteration("env_steps")[1:] == [3, 3, 3], "more is there"


def test_max_unroll_length_takes_nothing_where_nothing_is_there() -> None:
    run = run_one(unroll_length=0, max_unroll_length=3, unroll_step_interval=0.2, num_iterations=8)
    steps = run.per_iteration("env_steps")
    assert steps[0] > 0, "before the first update it waits"
    assert 0 in steps[1:]
    assert run.per_iteration("updates")[-1] == 1, "and learns nevertheless"


def test_unroll_queue_size() -> None:
    run = run_one(unroll_queue_size=2, each=pause)
    assert len(diary()) <= run.result.env_steps + 2 + 1, "a full queue makes the worker wait"


def test_unroll_queue_size_below_an_unroll_is_refused() -> None:
    assert "set unroll_queue_size = 5 or more" in refusal(DQN, WORKERS, unroll_queue_size=2, unroll_length=5)


def test_unroll_step_interval() -> None:
    run_one(unroll_step_interval=0.05, num_iterations=6)
    times = [at for _, at, _ in diary()]
    assert times[5] - times[0] >= 0.24, "five intervals, less the jitter of the clock"


def test_unroll_step_interval_that_cannot_be_kept_is_counted() -> None:
    run = run_one(unroll_step_interval=1e-6, num_iterations=20, each=lambda trainer: time.sleep(0.01))
    assert "slower than TrainerConfig.unroll_step_interval" in run.console
    assert max(run.scalars("Unroll/late_steps").values()) > 0


def test_unroll_parameter_update_period() -> None:
    run = run_one(unroll_parameter_update_period=4, num_iterations=12, unroll_queue_size=1, each=pause)
    lag = list(run.scalars("Unroll/lag").values())
    assert lag[:4] == [0, 1, 2, 3], "those of the start"
    assert max(lag) <= 7, "then, three steps behind at most, those of iterations 4 and 8; one update each"


def test_unroll_timeout() -> None:
    with pytest.raises(WorkerLost, match=r"did not start within 0\.01 s\. Raise TrainerConfig\.unroll_timeout"):
        run_one(unroll_timeout=0.01)


@pytest.mark.parametrize(
    "option",
    [
        {"max_unroll_length": 3},
        {"unroll_queue_size": 9},
        {"unroll_step_interval": 0.1},
        {"unroll_parameter_update_period": 3},
        {"num_unroll_workers": 2},
        {"unroll_timeout": 9.0},
    ],
    ids=lambda option: next(iter(option)),
)
def test_async_unroll_off_makes_the_others_idle_and_that_is_said(option: dict[str, Any]) -> None:
    assert f"TrainerConfig.{next(iter(option))}: {IDLE}" in train(DQN, num_iterations=1, **option).console
