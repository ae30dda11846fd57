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
from alfish.collective import Collective
from alfish.errors import NumericFault
from alfish.optimizers.sgd import SGD
from alfish.progress import Progress
from alfish.summary.summary import Summary
from alfish.types import LossInfo
from tests.thread_ranks import on_ranks

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
        expected |= {"Parameters/slope/norm": 1.5, "Gradients/slope/norm": 1.0}
    assert recorder.values == expected


def test_state_round_trip() -> None:
    algorithm, updater, _ = make(nan_policy="skip")
    updater.update(LossInfo(loss=algorithm.slope * float("nan") * ONES), ONES, ())
    updater.update(LossInfo(loss=algorithm.slope * ONES), ONES, ())
    _, other, _ = make()
    other.load_state_dict(updater.state_dict())
    assert (other.skipped, other.average_loss) == (1, 2.0)


def test_the_noise_scale_is_estimated_on_updates_that_write_and_saved() -> None:
    def run(*enabled: bool) -> dict[str, float]:
        algorithm, progress = Line(), Progress()
        summary = Summary([], progress)
        config = TrainerConfig(algorithm_ctor=Line, summarize_gradient_noise_scale=True)
        updater = Updater(assign_optimizers(algorithm), progress, summary, config)
        other = Updater(updater.ownership, progress, summary, config)
        for summary.enabled in enabled:
            losses = algorithm.slope * torch.tensor([[1.0, 3.0]]) * (1.0 if summary.enabled else 5.0)
            updater.update(LossInfo(loss=losses), torch.ones(1, 2), ())
            other.load_state_dict(updater.state_dict())
            updater, other = other, updater
        assert algorithm.slope.item() == 2.0 - sum(1 if each else 5 for each in enabled)  # as without noise
        return summary.write()

    # Gradients 1 and 3 of one sample each: |G|^2 = 1 * 3, tr(Sigma) = (3 - 1)^2 / 2.
    expected = {"noise_scale": 2 / 3, "squared_gradient": 3.0, "variance": 2.0}
    for written in (run(True), run(False, True, False)):
        assert {tag: value for tag, value in written.items() if "Noise" in tag} == pytest.approx(
            {f"GradientNoise/SGD/{name}": value for name, value in expected.items()}
        )
    assert run(False) == {}


# Several ranks


def step_on_ranks(weights: list[torch.Tensor], factor: float = 1.0, **options: Any) -> list[Any]:
    """The slopes, 2 before, and the skipped updates after a step on squares of each rank's own numbers."""

    def work(ranks: Collective) -> tuple[float, int, int]:
        algorithm, progress = Line(), Progress()
        config = TrainerConfig(algorithm_ctor=Line, **options)
        updater = Updater(assign_optimizers(algorithm), progress, Summary.disabled(), config, ranks)
        data = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) if ranks.rank == 0 else torch.tensor([[5.0, 6.0], [7.0, 8.0]])
        loss = algorithm.slope * data * (factor if ranks.rank else 1.0)
        updater.update(LossInfo(loss=loss, scalar_loss=algorithm.slope * ranks.rank), weights[ranks.rank], ())
        return algorithm.slope.item(), updater.skipped, progress.updates

    return on_ranks(2, work)


def test_ranks_step_down_the_gradient_of_all_their_steps_together() -> None:
    # Mean of 1 to 8 is 4.5, of the scalar losses 0 and 1 is 0.5: 2 - 0.5 * 5.
    assert step_on_ranks([ONES, ONES]) == [(-0.5, 0, 1)] * 2


def test_ranks_with_fewer_steps_that_count_weigh_less() -> None:
    # 1, 2, 3, 4 and 5 count: their mean is 3, where the mean of the ranks' means would be 3.75.
    assert step_on_ranks([ONES, torch.tensor([[1.0, 0.0], [0.0, 0.0]])]) == [(0.25, 0, 1)] * 2
    assert step_on_ranks([ONES, torch.zeros(2, 2)]) == [(0.5, 0, 1)] * 2


def test_a_loss_that_is_not_finite_on_one_rank_skips_the_update_on_all() -> None:
    assert step_on_ranks([ONES, ONES], float("inf"), nan_policy="skip") == [(2.0, 1, 0)] * 2


def test_a_loss_that_is_not_finite_on_one_rank_stops_all() -> None:
    first, second = step_on_ranks([ONES, ONES], float("nan"))
    assert "the loss is nan on rank 1" in str(first)
    assert "the loss is nan: " in str(second)
    assert isinstance(first, NumericFault)
    assert isinstance(second, NumericFault)
