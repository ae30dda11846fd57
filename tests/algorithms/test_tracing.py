"""While a graph is made of an algorithm it is watched, and afterwards it is as before."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish.algorithms.compilation import CannotCompile
from alfish.algorithms.tracing import traced
from alfish.optimizers.schedulers import LinearScheduler
from tests.algorithms.runs import start_run


def test_nothing_to_find_fault_with() -> None:
    with traced(start_run()) as watch:
        watch.check("its loss")
        assert not watch.summary.was_used


def test_reading_the_progress_is_seen() -> None:
    algorithm = start_run()
    with traced(algorithm) as watch:
        assert algorithm.progress.iterations == 0
        with pytest.raises(CannotCompile, match="its loss changes with the progress of the run"):
            watch.check("its loss")


def test_what_schedulers_say_is_followed() -> None:
    algorithm, schedule = start_run(), LinearScheduler("iterations", [(0, 0.0), (10, 1.0)])
    progress = algorithm.progress
    progress.iterations = 3
    with traced(algorithm) as watch:
        told: Any = schedule(algorithm.progress)
        watch.check("its loss")
    (number,) = watch.followed
    assert told.item() == number.tensor.item() == schedule(progress)
    progress.iterations = 7
    number.refresh(progress)
    assert number.tensor.item() == schedule(progress)


def test_summaries_are_off_and_seen() -> None:
    algorithm = start_run()
    summary = algorithm.summary
    summary.enabled = True
    with traced(algorithm) as watch:
        assert not algorithm.summary.enabled
        assert not summary.enabled
        assert not watch.summary.was_used
        algorithm.summary.scalar("a", 1.0)
        assert watch.summary.was_used
    assert summary.write() == {}


def test_all_is_as_before() -> None:
    algorithm = start_run()
    algorithm.register_buffer("count", torch.zeros(()))
    algorithm.summary.enabled = True
    before = algorithm.progress, algorithm.summary, algorithm.count
    with traced(algorithm) as watch:
        algorithm.count = algorithm.count + 1
        with pytest.raises(CannotCompile, match="makes new tensors"):
            watch.check("its loss")
    assert (algorithm.progress, algorithm.summary) == before[:2]
    assert algorithm.count is before[2]
    assert algorithm.summary.enabled
