"""The smallest supervised algorithm: a line through the origin, y = a x, which starts at a = 0."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import alfish
from alfish.algorithms.supervised.dataset import Dataset, Examples
from alfish.algorithms.supervised.supervised_algorithm import SupervisedAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.optimizers.sgd import SGD
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.types import LossInfo


def line_data(generator: torch.Generator | None = None, number: int = 6) -> Dataset:
    """y = 2 x."""
    x = torch.arange(1.0, number + 1).unsqueeze(-1)
    part = Examples(x, 2 * x.squeeze(-1))
    return Dataset("line", part, part)


@alfish.configurable
class LineAlgorithm(SupervisedAlgorithm):
    """Remembers what it was asked to learn from.

    Args:
        dataset: of numbers.
        config: the options of the run.
        optimizer: owns the slope.
        debug_summaries: not used.
    """

    def __init__(self, dataset: Dataset, config: Any = None, optimizer: Any = None, debug_summaries: bool = False):
        super().__init__(dataset, config, optimizer=optimizer or SGD(lr=0.0), debug_summaries=debug_summaries)
        self.slope = nn.Parameter(torch.zeros(()))
        self.seen: list[list[int]] = []
        self.num_after_updates = 0

    def batch_loss(self, batch: Examples) -> LossInfo:
        self.seen.append(batch.rows.tolist())
        return LossInfo(loss=(self.slope * batch.inputs.squeeze(-1) - batch.targets).square())

    def after_update(self) -> None:
        self.num_after_updates += 1

    def evaluate(self) -> dict[str, float]:
        test = self.dataset.test
        error = self.slope * test.inputs.squeeze(-1) - test.targets
        return {"loss": error.square().mean().item()}


def started(seed: int = 0, lr: float = 0.0, dataset: Dataset | None = None, **options: Any) -> LineAlgorithm:
    """Ready for `train_iter`, without a trainer."""
    config = TrainerConfig(algorithm_ctor=LineAlgorithm, ml_type="sl", **options)
    algorithm = LineAlgorithm(dataset or line_data(), config, SGD(lr=lr))
    algorithm.start(config, Seeds(seed), Progress(), Summary.disabled(), Timers())
    return algorithm
