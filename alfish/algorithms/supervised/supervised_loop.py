"""An epoch of supervised learning: every example once, in an order of its own, in mini batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from alfish import nest
from alfish.algorithms.precision import Precision
from alfish.algorithms.supervised.dataset import Examples
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.updater import Updater
from alfish.seeding import Seeds
from alfish.types import replace

if TYPE_CHECKING:
    from alfish.algorithms.supervised.supervised_algorithm import SupervisedAlgorithm

_DEFAULT_SIZE = 64


class SupervisedLoop:
    """Goes over the training data of an algorithm.

    The order of an epoch is a function of the run's seed and the epoch's number alone, so that a run which goes on
    after any epoch sees what it would have seen.

    Args:
        algorithm: that learns.
        config: says how large mini batches are.
        updater: takes the optimizer steps.
        seeds: of the run.
    """

    def __init__(self, algorithm: SupervisedAlgorithm, config: TrainerConfig, updater: Updater, seeds: Seeds) -> None:
        self.updater = updater
        self.metrics = ExampleMetrics(updater)
        self._algorithm = algorithm
        self._examples = algorithm.dataset.train
        self._batch_size = mini_batch_size(config, self._examples)
        self._seeds = seeds
        self._precision = Precision.of(config)

    def train(self) -> None:
        """One epoch. The last mini batch may be smaller, so that no example is left out."""
        algorithm, device = self._algorithm, self._algorithm.device
        stream = self._seeds.torch("shuffle", algorithm.progress.iterations)
        for rows in torch.split(torch.randperm(len(self._examples), generator=stream), self._batch_size):
            batch = nest.to_device(self._examples.take(rows), device)
            with self._precision.autocast():
                loss_info = self._precision.kept(algorithm.batch_loss(batch))
            if isinstance(loss_info.loss, torch.Tensor):
                loss_info = replace(loss_info, loss=loss_info.loss.unsqueeze(0))  # [T, B] with one step
            if self.updater.update(loss_info, torch.ones(1, len(batch), device=device), batch):
                algorithm.after_update()
            self.metrics.observe(len(batch))


def mini_batch_size(config: TrainerConfig, examples: Examples) -> int:
    """How many examples an update learns from; the last one of an epoch from fewer."""
    size = config.mini_batch_size or _DEFAULT_SIZE
    return len(examples) if size == "whole" else min(size, len(examples))


class ExampleMetrics:
    """Counts what was learned from, and says how well that goes."""

    average_return = None  # there are no episodes

    def __init__(self, updater: Updater) -> None:
        self.examples = 0  # each as often as it was learned from
        self._updater = updater

    @property
    def headline(self) -> tuple[str, float | None]:
        """What people watch, and its value."""
        return "loss", self._updater.average_loss

    def observe(self, number: int) -> None:
        """`number` examples were learned from."""
        self.examples += number

    def results(self) -> dict[str, float]:
        return {"Examples": self.examples}

    def state_dict(self) -> dict[str, Any]:
        return {"examples": self.examples}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.examples = state["examples"]
