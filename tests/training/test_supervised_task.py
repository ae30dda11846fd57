from __future__ import annotations

from functools import partial
from typing import Any

import gin
import pytest

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.supervised_task import SupervisedTask
from tests.algorithms.supervised.regression import LineAlgorithm, line_data
from tests.training import tiny

OPTIONS = {"ml_type": "sl", "algorithm_ctor": LineAlgorithm, "num_iterations": 5}


def make(**options: Any) -> SupervisedTask:
    tiny.bind()
    gin.bind_parameter("create_dataset.data_ctor", partial(line_data, number=1200))
    return SupervisedTask(TrainerConfig(**{**OPTIONS, **options}), Seeds(1))


def test_it_says_what_is_learned_from():
    task = make()
    assert str(task) == "1,200 examples of line"
    assert task.identity() == {"data": "line"}
    assert task.facts() == {"num_examples": 1200}
    assert task.resumption(True) == "with the next epoch"
    assert str(task.budget) == "5 epochs"


def test_an_iteration_is_an_epoch_and_yields_one():
    task, progress = make(), Progress()
    task.start(progress, Summary.disabled(), Timers())
    task.train_iter(progress)
    assert (progress.iterations, progress.updates) == (1, 19)  # 1200 examples, 64 at a time
    assert task.budget.epoch_is_over(progress)
    assert task.budget.epoch(progress) == 1
    assert task.budget.fraction(progress) == 0.2


def test_threads_are_those_asked_for_or_those_of_before():
    assert make(num_threads=3).num_threads({"torch_threads": 2}) == 3
    assert make().num_threads({"torch_threads": 2}) == 2
    assert make().num_threads({}) == 1


def test_evaluation_is_what_the_algorithm_says():
    task = make()
    task.start(Progress(), Summary.disabled(), Timers())
    assert task.make_evaluator().evaluate(task.algorithm)["loss"] > 0
    assert not task.evaluates_later


@pytest.mark.parametrize("made", [object(), None])
def test_what_is_no_supervised_algorithm_is_refused(made):
    with pytest.raises(ConfigProblems, match="no SupervisedAlgorithm"):
        make(algorithm_ctor=lambda **arguments: made)
