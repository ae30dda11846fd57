"""Both kinds of learning look the same to the trainer."""

from __future__ import annotations

import pytest

from alfish.algorithms.supervised.ensemble_classification import EnsembleClassificationAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.environment_task import EnvironmentTask
from alfish.training.supervised_task import SupervisedTask
from alfish.training.task import Task
from tests.training import tiny

SUPERVISED = {"algorithm_ctor": EnsembleClassificationAlgorithm, "ml_type": "sl", "num_iterations": 3}
DATA = """
create_dataset.data_ctor = @blobs
EnsembleClassificationAlgorithm.optimizer = @Adam()
"""


def make(kind: str) -> Task:
    tiny.bind(DATA)
    if kind == "sl":
        return SupervisedTask(TrainerConfig(**SUPERVISED), Seeds(1))
    return EnvironmentTask(TrainerConfig(**tiny.OPTIONS), Seeds(1), from_gin=False)


@pytest.mark.parametrize("kind", ["rl", "sl"])
def test_the_trainer_can_drive_it(kind: str) -> None:
    task = make(kind)
    progress = Progress()
    ownership = task.start(progress, Summary.disabled(), Timers())
    owned = sum(parameter.numel() for each in ownership.parameters.values() for parameter in each.values())
    assert owned == sum(parameter.numel() for parameter in task.algorithm.parameters())
    task.train_iter(progress)
    assert progress.iterations == 1
    assert getattr(progress, task.counts) > 0
    assert task.budget.fraction(progress) == pytest.approx(1 / task.budget.num_iterations)
    assert task.num_threads({}) == 1
    assert set(task.identity()) == {{"rl": "environment", "sl": "data"}[kind]}
    assert set(task.facts()) == {"rl": {"num_environments", "num_ranks"}, "sl": {"num_examples"}}[kind]
    assert task.algorithm.metrics.headline[0] == {"rl": "return", "sl": "loss"}[kind]
    task.close()
    task.close()
