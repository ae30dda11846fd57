from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alfish.environments.recipe import Recipe, ScopedRecipe
from alfish.environments.shared_rows import Layout, SharedRows
from alfish.environments.worker_handle import WorkerHandle, stop_all, wait_for
from alfish.errors import EnvironmentFault
from tests.faults.fault_env import load_fault_env

Start = Callable[..., list[WorkerHandle]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts two processes; the fault, if any, is in the second one."""
    handles: list[WorkerHandle] = []

    def start_two(step_timeout: float = 30.0, **fault: Any) -> list[WorkerHandle]:
        rows = SharedRows(Layout(2, (((3,), np.dtype(np.float32)),), (((), np.dtype(np.int64)),), (), 0))
        recipe = Recipe("fault", partial(load_fault_env, folder=str(tmp_path), **fault))
        handles.extend(WorkerHandle(ScopedRecipe(recipe, ()), rows, row, step_timeout) for row in (0, 1))
        for handle in handles:
            handle.wait_until_ready()
        return handles

    yield start_two
    stop_all(handles)


def test_commands_are_answered(start: Start) -> None:
    workers = start()
    for row, worker in enumerate(workers):
        worker.reset(5, row, 0)
        assert worker.is_busy
    wait_for(workers)
    assert not any(worker.is_busy or worker.fault for worker in workers)
    wait_for(workers)  # nothing to wait for


def test_who_is_late_is_given_up_and_the_others_are_not(start: Start) -> None:
    workers = start(step_timeout=0.4, mode="hang", step=1)
    for row, worker in enumerate(workers):
        worker.reset(5, row, 2)
    wait_for(workers)
    for worker in workers:
        worker.step()
    began = time.monotonic()
    wait_for(workers)
    assert 0.4 <= time.monotonic() - began < 10
    assert not workers[0].fault
    assert workers[1].fault.startswith("fault: environment 1 did not answer within 0.4 s\n  in step 1 of episode 2")
    assert "in _break" in workers[1].fault


def test_a_fault_need_not_wait_for_the_others(start: Start) -> None:
    workers = start(step_timeout=2.0, mode="raise", step=0, index=1)
    os.kill(workers[0]._child.pid, signal.SIGSTOP)
    workers[0].reset(5, 0, 0)
    workers[1].reset(5, 7, 0)  # the index of an environment is what it is reset for
    wait_for(workers, until_fault=True)
    assert workers[0].is_busy
    assert not workers[1].is_busy
    assert workers[1].fault.startswith("fault: environment 7 raised ValueError: the wheel came off")
    renewed = workers[1].restarted()
    workers.append(renewed)
    renewed.reset(5, 7, 1)  # before it is ready
    wait_for([renewed])
    assert not renewed.fault


def test_what_goes_wrong_while_building_is_told(start: Start) -> None:
    with pytest.raises(
        EnvironmentFault, match=r"(?s)fault: environment 0 failed:.*unexpected keyword argument 'colour'"
    ):
        start(colour="red")
