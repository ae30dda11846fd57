"""What the configs of supervised runs refer to: an algorithm that counts its calls, and data of a user's own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alfish.algorithms.supervised.dataset import Dataset, Examples
from alfish.algorithms.supervised.ensemble_classification import EnsembleClassificationAlgorithm
from alfish.algorithms.supervised.supervised_algorithm import SupervisedAlgorithm
from alfish.config.registry import configurable
from alfish.optimizers.optimizer import Optimizer
from alfish.training.results import SupervisedEvalResult
from alfish.types import LossInfo


@configurable
def own_data(generator: torch.Generator, number: int = 5, has_outliers: bool = False) -> Dataset:
    """Examples of y = 2 x.

    Args:
        generator: not used.
        number: how many.
        has_outliers: whether there are others to compare with.
    """
    x = torch.arange(1.0, number + 1)
    return Dataset("own_data", Examples(x, 2 * x), Examples(x, 2 * x), -x if has_outliers else None)


@configurable
class SlopeAlgorithm(SupervisedAlgorithm):
    """Learns the slope of a line; does not know how sure it is.

    Args:
        dataset: of numbers.
        config: the options of the run.
        optimizer_ctor: makes what owns the slope.
        debug_summaries: not used.
    """

    def __init__(
        self, dataset: Dataset, config: Any = None, optimizer_ctor: Callable[..., Any] | None = None,
        debug_summaries: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dataset, config, optimizer=optimizer_ctor() if optimizer_ctor else None)
        self.slope = nn.Parameter(torch.zeros(()))
        self.calls: list[str] = []

    def batch_loss(self, batch: Examples) -> LossInfo:
        return LossInfo(loss=(self.slope * batch.inputs - batch.targets).square())

    def evaluate(self) -> dict[str, float]:
        assert not torch.is_grad_enabled()
        self.calls.append(f"evaluate {self.progress.iterations}")
        return {"loss": (self.slope.item() - 2) ** 2}


@configurable
class SureSlopeAlgorithm(SlopeAlgorithm):
    """Is asked how sure it is.

    Args:
        dataset: of numbers.
        config: the options of the run.
        optimizer_ctor: makes what owns the slope.
        debug_summaries: not used.
    """

    def eval_uncertainty(self) -> dict[str, float]:
        self.calls.append(f"eval_uncertainty {self.progress.iterations}")
        return {"doubt": 0.25}


@configurable
def first_is_best(result: SupervisedEvalResult) -> float:
    """The best score is that of the first evaluation.

    Args:
        result: to be judged.
    """
    assert "accuracy" in result.metrics
    return 10.0 - result.iteration


@configurable
class MortalClassificationAlgorithm(EnsembleClassificationAlgorithm):
    """Its process is killed in the middle of an epoch, when the checkpoint of epoch 2 is whole.

    Args:
        dataset: of classes.
        config: the options of the run.
        optimizer: owns the parameters.
        dies_in_update: the number of the update, from 1; 0: never.
        debug_summaries: write additional summaries.
    """

    def __init__(
        self,
        dataset: Dataset,
        config: Any = None,
        optimizer: Optimizer | None = None,
        dies_in_update: int = 0,
        debug_summaries: bool = False,
    ) -> None:
        super().__init__(dataset, config, optimizer=optimizer, debug_summaries=debug_summaries)
        self._dies_in_update = dies_in_update

    def batch_loss(self, batch: Examples) -> LossInfo:
        if self.progress.updates + 1 == self._dies_in_update:
            while not Path("killed/checkpoints/000002").exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().batch_loss(batch)
