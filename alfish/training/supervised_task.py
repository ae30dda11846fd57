"""Supervised learning: examples, and an algorithm that learns from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from alfish.algorithms.ownership import Ownership
from alfish.algorithms.supervised.create_dataset import create_dataset
from alfish.algorithms.supervised.supervised_loop import mini_batch_size
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.budget import Budget
from alfish.training.build import build_supervised_algorithm, warn_of_idle
from alfish.training.supervised_evaluator import SupervisedEvaluator
from alfish.training.threads import MiniBatch, num_threads_of_run


class SupervisedTask:
    """`TrainerConfig.ml_type = 'sl'`. An iteration is an epoch; no environment is made.

    Args:
        config: the options of the run.
        seeds: of the run.
    """

    counts: Literal["env_steps", "updates"] = "updates"
    evaluates_later = False
    num_restarts = 0

    def __init__(self, config: TrainerConfig, seeds: Seeds) -> None:
        self._config, self._seeds = config, seeds
        self.dataset = create_dataset(seeds)
        self.algorithm = build_supervised_algorithm(config, self.dataset, seeds)
        warn_of_idle(config.idle_options())
        self.budget = Budget.of_epochs(config.num_iterations)

    def num_threads(self, then: Mapping[str, Any]) -> int:
        mini_batch = MiniBatch(mini_batch_size(self._config, self.dataset.train), 1)
        return num_threads_of_run(self._config, self.algorithm, mini_batch, then)

    def start(self, progress: Progress, summary: Summary, timers: Timers) -> Ownership:
        return self.algorithm.start(self._config, self._seeds, progress, summary, timers)

    def train_iter(self, progress: Progress) -> None:
        self.algorithm.train_iter()

    def make_evaluator(self) -> SupervisedEvaluator:
        return SupervisedEvaluator(self._seeds, self._config.eval_uncertainty)

    def identity(self) -> dict[str, str]:
        return {"data": self.dataset.name}

    def facts(self) -> dict[str, Any]:
        return {"num_examples": len(self.dataset.train)}

    def resumption(self, episodes_go_on: bool) -> str:
        return "with the next epoch"

    def words(self) -> list[str]:
        return []

    def close(self) -> None: ...

    def __str__(self) -> str:
        return f"{len(self.dataset.train):,} examples of {self.dataset.name}"
