from __future__ import annotations

from functools import partial
from math import log
from typing import Any

import pytest
import torch

from alfish.algorithms.supervised.dataset import Dataset, Examples
from alfish.algorithms.supervised.ensemble_classification import EnsembleClassificationAlgorithm
from alfish.algorithms.supervised.toy_data import blobs, segment_digits
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.errors import ConfigError
from alfish.networks.encoding import EncodingNetwork
from alfish.optimizers.adam import Adam
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from tests.algorithms.supervised.regression import line_data


def make(dataset: Dataset, seed: int = 0, layers: Any = (64,), **arguments: Any) -> EnsembleClassificationAlgorithm:
    config = TrainerConfig(algorithm_ctor=EnsembleClassificationAlgorithm, ml_type="sl", mini_batch_size=50)
    network = partial(EncodingNetwork, fc_layer_params=layers)
    with Seeds(seed).fork_torch("init"):
        algorithm = EnsembleClassificationAlgorithm(
            dataset, config, network_ctor=network, optimizer=Adam(lr=0.01), **arguments
        )
    algorithm.start(config, Seeds(seed), Progress(), Summary.disabled(), Timers())
    return algorithm


def fixed(*probabilities: list[list[float]], targets: list[int], outliers: Any = None) -> Any:
    """An ensemble whose members say what is given, `[M, N, C]`, about the test data, and nothing about outliers."""
    part = Examples(torch.zeros(len(targets), 2), torch.tensor(targets))
    algorithm = make(Dataset("fixed", part, part, outliers), num_members=len(probabilities))
    said = torch.tensor(probabilities)
    torn = torch.full((len(probabilities), 3, said.shape[-1]), 1 / said.shape[-1])
    algorithm.predict = lambda inputs: said if inputs is part.inputs else torn  # type: ignore[method-assign]
    return algorithm


def test_an_evaluation_by_hand():
    algorithm = fixed(
        [[0.95, 0.05], [0.55, 0.45], [0.15, 0.85], [0.75, 0.25]],
        [[0.75, 0.25], [0.15, 0.85], [0.35, 0.65], [0.75, 0.25]],
        targets=[0, 1, 1, 1],
    )
    metrics = algorithm.evaluate()
    # The ensemble says 0.85, 0.35, 0.25, 0.75 for class 0: right, right, right, wrong.
    assert metrics["accuracy"] == 0.75
    assert metrics["loss"] == pytest.approx(-(log(0.85) + log(0.65) + log(0.75) + log(0.25)) / 4)
    assert metrics["member_accuracy"] == (2 + 3) / 8
    # Confidences 0.85, 0.65 and twice 0.75: 0.15 and 0.35 too low, and 0.75 + 0.75 - 1 too high.
    assert metrics["calibration_error"] == pytest.approx((0.15 + 0.35 + 0.5) / 4, abs=1e-6)
    assert algorithm.score(metrics) == 0.75


def test_uncertainty_by_hand():
    outliers = torch.zeros(3, 2)
    algorithm = fixed([[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], targets=[0, 1], outliers=outliers)
    assert algorithm.eval_uncertainty() == {
        "entropy": pytest.approx(log(2) / 2),
        "outlier_entropy": pytest.approx(log(2)),
        "disagreement": pytest.approx(log(2) / 2),
        "outlier_disagreement": pytest.approx(0.0, abs=1e-6),
        "outlier_separation": pytest.approx(0.25),  # above none, and as low as the first of two
    }


def test_without_outliers_there_is_nothing_to_compare_with():
    with pytest.raises(ConfigError, match="fixed has none"):
        fixed([[1.0, 0.0]], targets=[0]).eval_uncertainty()


def test_members_begin_differently_and_see_different_samples():
    algorithm = make(blobs(torch.Generator()), num_members=4)
    weights = next(algorithm.network.parameters())
    assert len(weights.flatten(1).unique(dim=0)) == 4
    times = algorithm._times
    assert times.shape == (4, 500)
    assert len(times.unique(dim=0)) == 4
    assert times.mean().item() == pytest.approx(1.0, abs=0.1)
    assert (times == 0).float().mean().item() == pytest.approx(
        0.368, abs=0.05
    )  # 1 / e, as in sampling with replacement


def test_an_example_that_no_member_sees_is_not_learned_from():
    dataset = blobs(torch.Generator(), num_train=50)
    algorithm = make(dataset, num_members=2)
    algorithm._times[:, :10] = 0
    loss = algorithm.batch_loss(dataset.train.take(torch.arange(50))).loss
    assert (loss[:10] == 0).all()
    assert (make(dataset, bootstrap=False).batch_loss(dataset.train.take(torch.arange(50))).loss > 0).all()


def test_the_loss_is_the_cross_entropy_of_the_members():
    dataset = blobs(torch.Generator(), num_classes=3, num_train=6)
    algorithm = make(dataset, num_members=2, bootstrap=False)
    batch = dataset.train.take(torch.tensor([5, 0, 3]))
    likelihood = algorithm.predict(batch.inputs)[:, torch.arange(3), batch.targets]
    torch.testing.assert_close(algorithm.batch_loss(batch).loss, -likelihood.log().mean(0))


def test_samples_are_drawn_by_the_seed_of_the_run():
    dataset = blobs(torch.Generator())
    assert torch.equal(make(dataset, seed=1)._times, make(dataset, seed=1)._times)
    assert not torch.equal(make(dataset, seed=1)._times, make(dataset, seed=2)._times)


def test_targets_that_are_no_classes_are_refused():
    with pytest.raises(ConfigError, match="learns classes, int64 from 0 on, but the targets of line are"):
        make(line_data())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("data", [blobs, segment_digits])
def test_it_learns_and_is_less_sure_about_another_distribution(data, seed):
    algorithm = make(data(Seeds(seed).torch("data")), seed, num_members=5)
    for _ in range(8):
        algorithm.train_iter()
    with algorithm.evaluating(torch.Generator()):
        metrics = {**algorithm.evaluate(), **algorithm.eval_uncertainty()}
    assert metrics["accuracy"] >= 0.95
    assert metrics["outlier_entropy"] > 2 * metrics["entropy"]
    assert metrics["outlier_disagreement"] > 3 * metrics["disagreement"]
    assert metrics["outlier_separation"] > 0.85
