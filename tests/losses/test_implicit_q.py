"""The parts of implicit Q-learning, against numbers computed by hand."""

from __future__ import annotations

import torch

from alfish.losses.implicit_q import advantage_weights, expectile_loss, expectile_weight


def test_errors_below_and_above_the_prediction_count_differently() -> None:
    error = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0])
    torch.testing.assert_close(expectile_weight(error, 0.9), torch.tensor([0.1, 0.1, 0.9, 0.9, 0.9]))
    torch.testing.assert_close(expectile_loss(error, 0.9), torch.tensor([0.4, 0.025, 0.0, 0.225, 3.6]))


def test_the_expectile_of_one_half_is_half_the_squared_error() -> None:
    error = torch.tensor([-3.0, 1.0])
    torch.testing.assert_close(expectile_loss(error, 0.5), torch.tensor([4.5, 0.5]))


def test_the_loss_is_least_at_the_expectile() -> None:
    # Of 0 and 1, equally likely: tau (1 - v) = (1 - tau) v, so v = tau.
    targets, value = torch.tensor([0.0, 1.0]), torch.tensor(0.8, requires_grad=True)
    expectile_loss(targets - value, 0.8).sum().backward()
    torch.testing.assert_close(value.grad, torch.tensor(0.0))


def test_the_gradient_is_that_of_the_weighted_square() -> None:
    value = torch.tensor([1.0, 1.0], requires_grad=True)
    expectile_loss(torch.tensor([0.0, 3.0]) - value, 0.7).sum().backward()
    torch.testing.assert_close(value.grad, torch.tensor([2 * 0.3 * 1.0, -2 * 0.7 * 2.0]))


def test_weights_grow_with_the_advantage_up_to_a_limit() -> None:
    advantage = torch.tensor([-1.0, 0.0, 0.5, 1000.0], requires_grad=True)
    weights = advantage_weights(advantage, 2.0, 100.0)
    torch.testing.assert_close(weights, torch.tensor([0.1353353, 1.0, 2.7182818, 100.0]))
    assert not weights.requires_grad


def test_without_inverse_temperature_all_actions_count_alike() -> None:
    torch.testing.assert_close(advantage_weights(torch.tensor([-5.0, 5.0]), 0.0, 100.0), torch.ones(2))
