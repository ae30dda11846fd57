"""Targets and losses of action values, by hand."""

from __future__ import annotations

import pytest
import torch

from alfish import nest
from alfish.algorithms.td_loss import (
    Correction,
    OneStepTDLoss,
    RetraceTDLoss,
    TDLoss,
    as_sequence,
    mean_of_trained,
    refuse_correction,
)
from alfish.algorithms.updater import weighted_mean
from alfish.errors import ConfigError
from alfish.types import StepType, TimeStep

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST


def time_steps(rewards: list[float], discounts: list[float], step_types: list[int]) -> TimeStep:
    """Of one environment."""
    nothing = torch.zeros(len(rewards), 1)
    rows = (torch.tensor(step_types), torch.tensor(rewards), torch.tensor(discounts))
    step_type, reward, discount = (row.unsqueeze(1) for row in rows)
    return TimeStep(step_type, reward, discount, nothing, nothing, nothing)


def column(values: list[float]) -> torch.Tensor:
    return torch.tensor(values).unsqueeze(1)


GOING_ON = time_steps([0.0, 1, 2, 4], [1.0] * 4, [MID] * 4)
REAL_END = time_steps([0.0, 1, 2, 0], [1.0, 1, 0, 1], [MID, MID, LAST, FIRST])
TIME_LIMIT = time_steps([0.0, 1, 2, 0], [1.0] * 4, [MID, MID, LAST, FIRST])
VALUES = column([100.0, 200, 300, 400])


@pytest.mark.parametrize(
    ("steps", "layout", "expected"),
    [
        # gamma 0.5; every window has its own bootstrap, and at LAST no action counts
        (1, GOING_ON, [1 + 100, 2 + 150, 4 + 200]),
        (2, GOING_ON, [1 + 1 + 75, 2 + 2 + 100]),
        (3, GOING_ON, [1 + 1 + 1 + 50]),
        (1, REAL_END, [101, 2]),
        (1, TIME_LIMIT, [101, 152]),
        (2, REAL_END, [1 + 1, 2]),
        (3, REAL_END, [1 + 1]),
        (2, TIME_LIMIT, [1 + 1 + 75, 2 + 150]),
        (3, TIME_LIMIT, [1 + 1 + 75]),
        (None, GOING_ON, [1 + 1 + 1 + 50, 2 + 2 + 100, 4 + 200]),
        (None, TIME_LIMIT, [1 + 1 + 75, 2 + 150]),
    ],
)
def test_targets_by_hand(steps: int | None, layout: TimeStep, expected: list[float]) -> None:
    loss = TDLoss(gamma=0.5, num_steps=steps)
    target = loss.target(layout, VALUES[1:])
    taken = layout.step_type[: len(target)] != LAST
    assert target[taken].tolist() == pytest.approx(expected)
    assert len(target) == loss.num_trained(3)


def test_retrace_by_hand() -> None:
    """gamma 0.5, lambda 1; action values 10, 20, 30; the second action was half as likely, the third twice."""
    loss = RetraceTDLoss(gamma=0.5, retrace_lambda=1.0)
    correction = Correction(action_value=column([10.0, 20, 30]), ratio=column([1.0, 0.5, 2]))
    last = 4 + 0.5 * 400
    middle = 2 + 0.5 * (300 + 1.0 * (last - 30))
    first = 1 + 0.5 * (200 + 0.5 * (middle - 20))
    target = loss.target(GOING_ON, VALUES[1:], correction)
    assert target.squeeze(1).tolist() == pytest.approx([first, middle, last])
    assert loss.num_trained(3) == 3


def test_retrace_is_refused_where_actions_have_no_probability() -> None:
    refuse_correction(TDLoss(), "DqnAlgorithm")
    with pytest.raises(ConfigError, match=r"DqnAlgorithm\.critic_loss_ctor = @RetraceTDLoss"):
        refuse_correction(RetraceTDLoss(), "DqnAlgorithm")


def test_windows_keep_environments_and_rewards_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    reward, values = torch.randn(2, 6, 3, 2, generator=generator)
    rows = [torch.full((6, 3), each) for each in (MID, 1.0)]
    layout = TimeStep(rows[0], reward, rows[1], rows[1], rows[1], rows[1])
    target = TDLoss(gamma=0.9, num_steps=2).target(layout, values[1:])
    assert target.shape == (4, 3, 2)
    torch.testing.assert_close(target, reward[1:5] + 0.9 * reward[2:6] + 0.81 * values[2:6])


def test_lambda_mixes_the_steps() -> None:
    # 0.5 * (one step: 101) + 0.5 * (two steps: 77)
    target = TDLoss(gamma=0.5, num_steps=2, td_lambda=0.5).target(GOING_ON, VALUES[1:])
    assert target[0].item() == pytest.approx(89)


def test_one_step_loss_is_one_step() -> None:
    target = OneStepTDLoss(gamma=0.5).target(GOING_ON, VALUES[1:])
    assert target.squeeze(1).tolist() == [101, 152, 204]
    assert OneStepTDLoss().least_time_steps == 2
    assert TDLoss(num_steps=3).least_time_steps == 4


def test_squared_and_huber_errors() -> None:
    value, target = torch.tensor([0.5, -3.0]), torch.zeros(2)
    assert TDLoss()(value, target).tolist() == [0.25, 9.0]
    assert TDLoss(td_error_loss="huber")(value, target).tolist() == [0.125, 2.5]


def test_the_mean_of_the_sequence_is_the_mean_of_its_trained_steps_that_count() -> None:
    counts = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    rows = torch.tensor([[3.0, 100.0], [100.0, 5.0]])  # 100 where nothing counts
    spread = as_sequence(rows, counts, start=1)
    assert spread.shape == (5, 2)
    assert spread[[0, 3, 4]].abs().sum() == 0
    assert weighted_mean(spread, counts).item() == pytest.approx(4.0)
    assert as_sequence(counts, counts) is counts


def test_a_batch_without_anything_to_train_has_loss_0() -> None:
    counts = torch.tensor([[0.0], [1.0]])
    assert weighted_mean(as_sequence(torch.tensor([[7.0]]), counts), counts).item() == 0


def test_the_mean_of_the_steps_that_count() -> None:
    rows, trained = torch.tensor([[2.0, 3.0, 5.0], [4.0, 7.0, 1.0]]), torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    assert mean_of_trained(rows, trained).tolist() == [3.0, 7.0, 0.0]
    assert mean_of_trained(rows[:1], trained[:1]).tolist() == [2.0, 0.0, 0.0]


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 1.0])
def test_of_a_single_reward_all_lambda_returns_are_the_same(lambda_: float) -> None:
    steps = nest.map(lambda leaf: leaf[:2], GOING_ON)
    target = TDLoss(gamma=0.5, td_lambda=lambda_).target(steps, VALUES[1:2])
    assert torch.equal(target, steps.reward[1:] + 0.5 * steps.discount[1:] * VALUES[1:2])


@pytest.mark.parametrize("steps", [1, 2, None])
def test_no_gradient_flows_through_a_target(steps: int | None) -> None:
    values = VALUES[1:].clone().requires_grad_()
    assert not TDLoss(gamma=0.5, num_steps=steps).target(GOING_ON, values).requires_grad
