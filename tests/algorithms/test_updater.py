"""From a loss to new parameters, or to a clear refusal."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from alfish.algorithms.algorithm import Algorithm
from alfish.algorithms.ownership import assign_optimizers
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.updater import Updater, total_loss, weighted_mean
from alfish.errors import NumericFault
from alfish.optimizers.sgd import SGD
from alfish.progress import Progress
from alfish.summary.summary import Summary
from alfish.types import LossInfo

ONES = torch.ones(2, 2)


class Line(Algorithm):
    def __init__(self) -> None:
        super().__init__(optimizer=SGD(lr=0.5))
        self.slope = nn.Parameter(torch.tensor(2.0))


class Recorder:
    """A writer that remembers scalars."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def scalars(self, moment: Any, values: dict[str, float]) -> None:
        self.values.update(values)

    def histogram(self, moment: Any, tag: str, values: Any) -> None:
        self.values[tag] = float(values.sum())


def make(**options: Any) -> tuple[Line, Updater, Progress]:
    algorithm, progress = Line(), Progress()
    config = TrainerConfig(algorithm_ctor=Line, **options)
    return algorithm, Updater(assign_optimizers(algorithm), progress, Summary.disabled(), config), progress


def test_mean_over_the_steps_that_count() -> None:
    values = torch.tensor([[1.0, 2.0], [3.0, 100.0]])
    assert weighted_mean(values, torch.tensor([[1.0, 1.0], [1.0, 0.0]])) == 2.0
    assert weighted_mean(values, torch.zeros(2, 2)) == 0.0
    assert weighted_mean(torch.tensor(7.0), ONES) == 7.0


def test_total_loss_adds_the_scalar_loss() -> None:
    assert total_loss(LossInfo(loss=ONES * 3, scalar_loss=torch.tensor(2.0)), ONES) == 5.0
    assert total_loss(LossInfo(scalar_loss=torch.tensor(2.0)), ONES) == 2.0


def test_one_step_down_the_gradient() -> None:
    algorithm, updater, progress = make()
    updater.update(LossInfo(loss=algorithm.slope * ONES), ONES, ())
    assert algorithm.slope.item() == pytest.approx(1.5)  # 2 - lr 0.5 * gradient 1
    assert progress.updates == 1
    assert updater.average_loss == 2.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_stop_names_the_loss_term_and_leaves_the_parameters(bad: float) -> None:
    algorithm, updater, progress = make()
    info = LossInfo(loss=algorithm.slope * ONES * bad, extra={"value": torch.tensor(bad), "fine": torch.tensor(1.0)})
    with pytest.raises(NumericFault, match=r"value is not finite.*nan_policy = 'skip'") as caught:
        updater.update(info, ONES, ONES)
    assert caught.value.batch is ONES
    assert algorithm.slope.item() == 2.0
    assert progress.updates == 0


def test_skip_goes_on_without_the_update_and_counts_it() -> None:
    algorithm, updater, progress = make(nan_policy="skip")
    updater.update(LossInfo(loss=algorithm.slope * float("nan") * ONES), ONES, ())
    updater.update(LossInfo(loss=algorithm.slope * ONES), ONES, ())
    assert (updater.skipped, progress.updates, algorithm.slope.item()) == (1, 1, 1.5)
    assert updater.average_loss == 2.0


def test_a_finite_loss_with_an_infinite_gradient_is_refused() -> None:
    algorithm, updater, _ = make()
    loss = (algorithm.slope - 2.0).abs().sqrt() * ONES  # the slope of a square root at 0 is infinite
    with pytest.raises(NumericFault, match="gradient norm of SGD"):
        updater.update(LossInfo(loss=loss), ONES, ())
    assert algorithm.slope.item() == 2.0


@pytest.mark.parametrize("grads_and_vars", [False, True])
def test_summaries(grads_and_vars: bool) -> None:
    algorithm, recorder = Line(), Recorder()
    summary = Summary([recorder], Progress())  # type: ignore[list-item]
    summary.enabled = True
    config = TrainerConfig(algorithm_ctor=Line, summarize_grads_and_vars=grads_and_vars)
    updater = Updater(assign_optimizers(algorithm), Progress(), summary, config)
    updater.update(LossInfo(loss=algorithm.slope * ONES, extra={"part": ONES * 4}), ONES, ())
    summary.write()
    expected = {
        "Loss/loss": 2.0,
        "Loss/part": 4.0,
        "Optimizer/SGD/gradient_norm": 1.0,
        "Optimizer/SGD/learning_rate": 0.5,
        "Optimizer/skipped_updates": 0.0,
    }
    if grads_and_vars:
        expected |= {"Parameters/slope": 1.5, "Gradients/slope": 1.0}
    assert recorder.values == expected


def test_state_round_trip() -> None:
    algorithm, updater, _ = make(nan_policy="skip")
    updater.update(LossInfo(loss=algorithm.slope * float("nan") * ONES), ONES, ())
    updater.update(LossInfo(loss=algorithm.slope * ONES), ONES, ())
    _, other, _ = make()
    other.load_state_dict(updater.state_dict())
    assert (other.skipped, other.average_loss) == (1, 2.0)
