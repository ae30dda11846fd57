"""Classification by an ensemble, which knows what it does not know (Lakshminarayanan et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import torch
from torch.nn import functional

from alfish import nest
from alfish.algorithms.ownership import Ownership
from alfish.algorithms.supervised.dataset import Dataset, Examples
from alfish.algorithms.supervised.supervised_algorithm import SupervisedAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.losses.uncertainty import calibration_error, mutual_information, predictive_entropy, separation
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.ensemble import Ensemble
from alfish.networks.network import Network
from alfish.optimizers.optimizer import Optimizer
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.specs import BoundedTensorSpec
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.types import LossInfo, Nest

_EVALUATION_BATCH = 4096


@configurable
class EnsembleClassificationAlgorithm(SupervisedAlgorithm):
    """Several classifiers that begin differently and, with `bootstrap`, learn from different samples of the data.

    Where there were examples they agree; far from them each goes on in its own way. How much they disagree tells
    inputs apart that are like nothing in the training data.

    Args:
        dataset: what to learn from; its targets are classes.
        config: the options of the run.
        network_ctor: makes one classifier; called with input_tensor_spec and last_layer_size, the number of classes.
        num_members: classifiers.
        bootstrap: every classifier sees each example 0, 1, 2, ... times, drawn once for the run (Poisson with mean 1,
            as in sampling with replacement); False: all see all examples once per epoch.
        optimizer: owns the parameters of all classifiers.
        debug_summaries: write additional summaries.
    """

    def __init__(
        self,
        dataset: Dataset,
        config: TrainerConfig | None = None,
        network_ctor: Callable[..., Network] = EncodingNetwork,
        num_members: Annotated[int, Range(min=1)] = 10,
        bootstrap: bool = True,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        super().__init__(dataset, config, optimizer=optimizer, debug_summaries=debug_summaries)
        spec = dataset.target_spec
        if not isinstance(spec, BoundedTensorSpec):
            raise ConfigError(
                f"{type(self).__name__} learns classes, int64 from 0 on, but the targets of {dataset.name} are {spec}"
            )
        self.num_classes = int(spec.maximum) + 1
        self.network = Ensemble(
            lambda: network_ctor(input_tensor_spec=dataset.input_spec, last_layer_size=self.num_classes), num_members
        )
        self._bootstrap = bootstrap
        self._times = torch.ones(num_members, 1)  # [M, N]: how often each member sees each example

    def start(
        self, config: TrainerConfig, seeds: Seeds, progress: Progress, summary: Summary, timers: Timers
    ) -> Ownership:
        if self._bootstrap:
            mean = torch.ones(self.network.number, len(self.dataset.train))
            self._times = torch.poisson(mean, generator=seeds.torch("bootstrap"))
        else:
            self._times = torch.ones(self.network.number, len(self.dataset.train))
        return super().start(config, seeds, progress, summary, timers)

    def batch_loss(self, batch: Examples) -> LossInfo:
        """The cross entropy of every member, averaged over members, `[B]`."""
        logits, _ = self.network(batch.inputs)  # [M, B, C]
        targets = batch.targets.expand(len(logits), -1)
        loss = functional.cross_entropy(logits.float().movedim(-1, 1), targets, reduction="none")
        times = self._times[:, batch.rows.cpu()].to(loss.device)
        is_right = logits.detach().argmax(-1) == targets
        return LossInfo(loss=(times * loss).mean(0), extra={"member_accuracy": is_right.float().mean(0)})

    def predict(self, inputs: Nest) -> torch.Tensor:
        """Probabilities `[M, N, C]` of the classes, by member. The ensemble's own are their mean."""
        rows = torch.split(torch.arange(len(nest.first_leaf(inputs))), _EVALUATION_BATCH)
        parts = (nest.to_device(nest.index(inputs, some), self.device) for some in rows)
        return torch.cat([self.network(part)[0].float().softmax(-1) for part in parts], dim=1)

    def evaluate(self) -> dict[str, float]:
        """Of the ensemble: `accuracy`, `loss` (negative log-likelihood) and `calibration_error`; and of a member."""
        test = self.dataset.test
        members = self.predict(test.inputs)
        targets = test.targets.to(members.device)
        ensemble = members.mean(0)
        confidence, predicted = ensemble.max(-1)
        is_right = predicted == targets
        likelihood = ensemble.gather(-1, targets.unsqueeze(-1)).clamp(min=torch.finfo(ensemble.dtype).tiny)
        return _numbers(
            accuracy=is_right.double().mean(),
            loss=-likelihood.log().mean(),
            calibration_error=calibration_error(confidence, is_right),
            member_accuracy=(members.argmax(-1) == targets).double().mean(),
        )

    def eval_uncertainty(self) -> dict[str, float]:
        """Entropy and disagreement, on the test data and on outliers, and how well disagreement tells them apart."""
        if self.dataset.outliers is None:
            raise ConfigError(
                f"TrainerConfig.eval_uncertainty compares test data with outliers, and {self.dataset.name} has none. "
                "Give Dataset.outliers, or leave the option out"
            )
        usual, unusual = self.predict(self.dataset.test.inputs), self.predict(self.dataset.outliers)
        disagreement, outlier_disagreement = mutual_information(usual), mutual_information(unusual)
        return _numbers(
            entropy=predictive_entropy(usual).mean(),
            outlier_entropy=predictive_entropy(unusual).mean(),
            disagreement=disagreement.mean(),
            outlier_disagreement=outlier_disagreement.mean(),
            outlier_separation=separation(disagreement, outlier_disagreement),
        )

    def score(self, metrics: Mapping[str, float]) -> float:
        return metrics["accuracy"]


def _numbers(**values: Any) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}
