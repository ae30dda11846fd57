"""Retrace by hand, against a plain loop, and in the cases in which it is another return."""

from __future__ import annotations

import pytest
import torch

from alfish.losses.retrace import retrace
from alfish.losses.value_ops import discounted_return, one_step_discounted_return
from alfish.types import StepType
from tests.losses.test_value_ops import random_episodes

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST


def column(values: list[float]) -> torch.Tensor:
    return torch.tensor(values).unsqueeze(1)


def by_hand(ratios: list[float], step_types: list[int], discounts: list[float], lambda_: float = 1.0) -> list[float]:
    """Three actions; rewards 1, 2, 3; values of the time steps 10, 20, 30, 40; of the taken actions 5, 6, 7."""
    rewards, values, action_values = column([0.0, 1, 2, 3]), column([10.0, 20, 30, 40]), column([5.0, 6, 7])
    result = retrace(rewards, values, action_values, column(ratios), column(discounts), column(step_types), lambda_)
    return result.squeeze(1).tolist()


def test_three_steps_by_hand() -> None:
    # R2 = 3 + 0.5 * 40 = 23, R1 = 2 + 0.5 * (30 + 0.5 * (23 - 7)) = 21, R0 = 1 + 0.5 * (20 + 1 * (21 - 6)) = 18.5
    # The ratio 4 counts as 1, and that of action 0 does not matter.
    assert by_hand([0.0, 4.0, 0.5], [MID] * 4, [0.5] * 4) == pytest.approx([18.5, 21.0, 23.0])


def test_lambda_shortens_the_traces() -> None:
    # R1 = 2 + 0.5 * (30 + 0.25 * 16) = 19, R0 = 1 + 0.5 * (20 + 0.5 * 13) = 14.25
    assert by_hand([1.0, 4.0, 0.5], [MID] * 4, [0.5] * 4, lambda_=0.5) == pytest.approx([14.25, 19.0, 23.0])


def test_a_real_end_has_no_value_and_nothing_flows_across() -> None:
    # The episode ends at time step 1: R0 = 1. Action 1 was ignored: its target is its own value.
    assert by_hand([1.0] * 3, [MID, LAST, FIRST, MID], [0.5, 0.0, 0.5, 0.5]) == pytest.approx([1.0, 6.0, 23.0])


def test_a_time_limit_bootstraps_and_nothing_flows_across() -> None:
    # R0 = 1 + 0.5 * 20
    assert by_hand([1.0] * 3, [MID, LAST, FIRST, MID], [0.5] * 4) == pytest.approx([11.0, 6.0, 23.0])


def naive_retrace(rewards, values, action_values, ratios, discounts, step_types, lambda_):
    length, batch = action_values.shape
    targets = torch.zeros(length, batch, dtype=torch.float64)
    for b in range(batch):
        for t in reversed(range(length)):
            if step_types[t, b] == LAST:
                targets[t, b] = action_values[t, b]
                continue
            after = float(values[t + 1, b])
            if t + 1 < length:
                trace = lambda_ * min(1.0, float(ratios[t + 1, b]))
                after += trace * (float(targets[t + 1, b]) - float(action_values[t + 1, b]))
            targets[t, b] = float(rewards[t + 1, b]) + float(discounts[t + 1, b]) * after
    return targets.float()


@pytest.mark.parametrize("lambda_", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_a_plain_loop(seed: int, lambda_: float) -> None:
    rewards, values, discounts, step_types = random_episodes(seed, length=30, batch=6)
    generator = torch.Generator().manual_seed(seed)
    action_values = torch.randn(30, 6, generator=generator)
    ratios = 2 * torch.rand(30, 6, generator=generator)
    arguments = (rewards, values, action_values, ratios, discounts, step_types, lambda_)
    torch.testing.assert_close(retrace(*arguments), naive_retrace(*arguments), atol=1e-5, rtol=1e-5)
    twice = retrace(
        *(torch.stack([each, 2 * each], -1) for each in (rewards, values, action_values)),
        ratios,
        discounts,
        step_types,
        lambda_,
    )
    expected = naive_retrace(*arguments)
    torch.testing.assert_close(twice, torch.stack([expected, 2 * expected], -1), atol=2e-5, rtol=1e-5)


def test_on_policy_with_sure_actions_it_is_the_full_return() -> None:
    rewards, values, discounts, step_types = random_episodes(seed=2, length=20, batch=4)
    on_policy = retrace(rewards, values, values[:-1], torch.ones(20, 4), discounts, step_types, 1.0)
    torch.testing.assert_close(on_policy, discounted_return(rewards, values, discounts, step_types))


def test_impossible_actions_cut_it_to_one_step() -> None:
    rewards, values, discounts, step_types = random_episodes(seed=2, length=20, batch=4)
    cut = retrace(rewards, values, values[:-1], torch.zeros(20, 4), discounts, step_types, 1.0)
    torch.testing.assert_close(cut, one_step_discounted_return(rewards, values, discounts, step_types))


def test_no_gradient_flows_through_the_target() -> None:
    rewards, values, discounts, step_types = random_episodes(seed=0, length=4, batch=2)
    values.requires_grad_()
    assert not retrace(rewards, values, values[:-1], torch.ones(4, 2), discounts, step_types, 1.0).requires_grad
