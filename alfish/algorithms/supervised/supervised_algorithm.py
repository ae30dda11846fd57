"""The algorithm at the root of a supervised run: it learns from examples and is tested on others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from alfish.algorithms.algorithm import Algorithm
from alfish.algorithms.ownership import Ownership, assign_optimizers
from alfish.algorithms.supervised.dataset import Dataset, Examples
from alfish.algorithms.supervised.supervised_loop import SupervisedLoop
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.updater import Updater
from alfish.optimizers.optimizer import Optimizer
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.types import LossInfo


class SupervisedAlgorithm(Algorithm):
    """An algorithm that can drive a run with `TrainerConfig.ml_type = 'sl'`.

    A subclass says what it minimises (`batch_loss`) and how good it is (`evaluate`); `eval_uncertainty` if it knows how
    sure it is. The data are there as `self.dataset`.

    Args:
        dataset: what to learn from, and to be tested on.
        config: the options of the run; None: their defaults.
        optimizer: see `Algorithm`.
        debug_summaries: see `Algorithm`.
    """

    replay = None  # as that of an RLAlgorithm which keeps nothing

    def __init__(
        self,
        dataset: Dataset,
        config: TrainerConfig | None = None,
        *,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        super().__init__(optimizer=optimizer, debug_summaries=debug_summaries)
        self.dataset = dataset

    # What a subclass says

    def batch_loss(self, batch: Examples) -> LossInfo:
        """The loss `[B]` of a mini batch, with gradient."""
        raise NotImplementedError(f"{type(self).__name__} needs batch_loss: what it minimises")

    def evaluate(self) -> Mapping[str, float]:
        """How good it is on `self.dataset.test`, by name. Called without gradient, in evaluation mode."""
        raise NotImplementedError(f"{type(self).__name__} needs evaluate: how good it is")

    def eval_uncertainty(self) -> Mapping[str, float]:
        """How sure it is, on the test data and on `self.dataset.outliers`. Called like `evaluate`, after it."""
        raise NotImplementedError(f"{type(self).__name__} does not know how sure it is")

    def score(self, metrics: Mapping[str, float]) -> float:
        """What "best" compares among evaluations, unless `TrainerConfig.score_fn` says otherwise; more is better."""
        return -metrics["loss"]

    # The run

    def start(
        self, config: TrainerConfig, seeds: Seeds, progress: Progress, summary: Summary, timers: Timers
    ) -> Ownership:
        """Makes this algorithm the root of a run; returns which optimizer owns which parameter."""
        self.attach(progress, summary, seeds)
        ownership = assign_optimizers(self)
        self.loop = SupervisedLoop(self, config, Updater(ownership, progress, summary, config), seeds)
        self.metrics = self.loop.metrics
        self._timers = timers
        return ownership

    def train_iter(self) -> None:
        """One epoch: learns from every example of the training data once."""
        with self._timers("learn"):
            self.loop.train()
        self.progress.iterations += 1

    def run_state(self) -> dict[str, Any]:
        """What a resumed run needs besides parameters and optimizers."""
        return {
            "updater": self.loop.updater.state_dict(),
            "metrics": self.metrics.state_dict(),
            "generators": [algorithm.generator.get_state() for algorithm in self.tree()],
        }

    def load_run_state(self, state: dict[str, Any]) -> bool:
        """The inverse of `run_state`; True: nothing has to begin anew."""
        self.loop.updater.load_state_dict(state["updater"])
        self.metrics.load_state_dict(state["metrics"])
        for algorithm, generator in zip(self.tree(), state["generators"], strict=True):
            algorithm.generator.set_state(generator)
        return True

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""
        return next(self.parameters()).device
