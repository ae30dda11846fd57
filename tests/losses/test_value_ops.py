from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alfish.losses.value_ops import discounted_return, gae, one_step_discounted_return, td_lambda
from alfish.types import StepType

MID, LAST, FIRST = StepType.MID, StepType.LAST, StepType.FIRST

NO_END = ([MID] * 5, [0.9] * 5)
TIME_LIMIT = ([MID, MID, LAST, MID, MID], [0.9] * 5)
TRUE_END = ([MID, MID, LAST, MID, MID], [0.9, 0.9, 0.0, 0.9, 0.9])


def column(values: list[float]) -> torch.Tensor:
    return torch.tensor(values).unsqueeze(1)


def both_shapes(function, reward: float, value: float, step_types: list[int], discounts: list[float], *more: float):
    """The result for one environment as a list, after checking that a reward dimension gives the same columns."""
    rewards, values = torch.full((5, 1), reward), torch.full((5, 1), value)
    fixed = (column(discounts), column(step_types), *more)
    result = function(rewards, values, *fixed)
    stacked = function(torch.stack([rewards, 2 * rewards], -1), torch.stack([values, 2 * values], -1), *fixed)
    torch.testing.assert_close(stacked, torch.stack([result, 2 * result], -1))
    assert result.shape == (4, 1)
    return result.squeeze(1).tolist()


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (NO_END, [7.5341, 6.149, 4.61, 2.9]),
        (TIME_LIMIT, [4.61, 2.9, 1.0, 2.9]),
        (TRUE_END, [3.8, 2.0, 1.0, 2.9]),
    ],
)
def test_discounted_return_by_hand(layout, expected):
    assert both_shapes(discounted_return, 2.0, 1.0, *layout) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (NO_END, [2.9, 2.9, 2.9, 2.9]),
        (TIME_LIMIT, [2.9, 2.9, 1.0, 2.9]),
        (TRUE_END, [2.9, 2.0, 1.0, 2.9]),
    ],
)
def test_one_step_discounted_return_by_hand(layout, expected):
    assert both_shapes(one_step_discounted_return, 2.0, 1.0, *layout) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        # delta is 3 + 0.9 * 2 - 2 = 2.8, the decay 0.9 * lambda = 0.6
        (NO_END, [6.0928, 5.488, 4.48, 2.8]),
        (TIME_LIMIT, [4.48, 2.8, 0.0, 2.8]),
        (TRUE_END, [3.4, 1.0, 0.0, 2.8]),
    ],
)
def test_gae_by_hand(layout, expected):
    assert both_shapes(gae, 3.0, 2.0, *layout, 0.6 / 0.9) == pytest.approx(expected, abs=1e-5)
    returns = [advantage + 2.0 for advantage in expected]
    assert both_shapes(td_lambda, 3.0, 2.0, *layout, 0.6 / 0.9) == pytest.approx(returns, abs=1e-5)


def naive_gae(rewards, values, discounts, step_types, lambda_):
    length, batch = rewards.shape[0] - 1, rewards.shape[1]
    advantages = torch.zeros(length, batch, dtype=torch.float64)
    for b in range(batch):
        after = 0.0
        for t in reversed(range(length)):
            if step_types[t, b] == LAST:
                after = 0.0
            else:
                discount = float(discounts[t + 1, b])
                delta = float(rewards[t + 1, b]) + discount * float(values[t + 1, b]) - float(values[t, b])
                after = delta + discount * lambda_ * after
            advantages[t, b] = after
    return advantages


def random_episodes(seed: int, length: int, batch: int):
    """Streams of FIRST MID ... LAST FIRST ..., cut anywhere, that end for real or by a time limit."""
    generator = torch.Generator().manual_seed(seed)
    step_types = torch.full((length + 1, batch), MID)
    discounts = torch.full((length + 1, batch), 0.97)
    for b in range(batch):
        for t in range(length + 1):
            if t and step_types[t - 1, b] == LAST:
                step_types[t, b] = FIRST
            elif torch.rand((), generator=generator) < 0.2:
                step_types[t, b] = LAST
                discounts[t, b] *= float(torch.rand((), generator=generator) < 0.5)
    rewards = torch.randn(length + 1, batch, generator=generator)
    values = torch.randn(length + 1, batch, generator=generator)
    return rewards, values, discounts, step_types


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31), length=st.integers(1, 40), batch=st.integers(1, 4), lambda_=st.floats(0, 1, width=32)
)
def test_agrees_with_a_plain_loop_on_any_layout_of_episodes(seed, length, batch, lambda_):
    data = random_episodes(seed, length, batch)
    expected = naive_gae(*data, lambda_).float()
    torch.testing.assert_close(gae(*data, lambda_), expected, atol=1e-5, rtol=1e-5)
    returns = expected + data[1][:-1]
    torch.testing.assert_close(td_lambda(*data, lambda_), returns, atol=1e-5, rtol=1e-5)


def test_the_ends_of_lambda_are_one_step_and_full_returns():
    data = random_episodes(seed=3, length=50, batch=4)
    values = data[1][:-1]
    torch.testing.assert_close(values + gae(*data, 0.0), one_step_discounted_return(*data), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(values + gae(*data, 1.0), discounted_return(*data), atol=1e-5, rtol=1e-5)


def test_long_sequences_stay_exact():
    data = random_episodes(seed=1, length=1000, batch=2)
    torch.testing.assert_close(gae(*data, 0.99), naive_gae(*data, 0.99).float(), atol=2e-5, rtol=1e-5)


def test_arguments_stay_as_they_are_and_get_no_gradient():
    data = random_episodes(seed=0, length=8, batch=2)
    data[1].requires_grad_()
    before = [tensor.clone() for tensor in data]
    for result in (gae(*data, 0.9), discounted_return(*data), td_lambda(*data, 0.5), one_step_discounted_return(*data)):
        assert not result.requires_grad
    assert all(torch.equal(a, b) for a, b in zip(data, before, strict=True))
