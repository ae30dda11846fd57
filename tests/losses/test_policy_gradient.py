from __future__ import annotations

import math

import pytest
import torch

from alfish.losses.policy_gradient import (
    approximate_kl,
    clip_fraction,
    clipped_value_loss,
    explained_variance,
    masked_mean,
    normalize_advantages,
    policy_gradient_loss,
    ppo_clipped_loss,
)

LOG = torch.log


def test_policy_gradient_loss_pushes_the_policy_and_not_the_advantage():
    log_prob = torch.tensor([-1.0, -2.0], requires_grad=True)
    advantage = torch.tensor([3.0, -4.0], requires_grad=True)
    loss = policy_gradient_loss(log_prob, advantage)
    assert loss.tolist() == [3.0, -8.0]
    loss.sum().backward()
    assert log_prob.grad.tolist() == [-3.0, 4.0]
    assert advantage.grad is None


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.1, 2.0, -2.2, -2.2),
        (1.5, 2.0, -2.4, 0.0),  # far enough up: held
        (0.5, 2.0, -1.0, -1.0),  # a good action became rarer: full gradient
        (0.5, -2.0, 1.6, 0.0),  # far enough down: held
        (1.5, -2.0, 3.0, 3.0),  # a bad action became likelier: full gradient
    ],
)
def test_ppo_clipped_loss_by_hand(ratio, advantage, loss, gradient):
    log_prob = LOG(torch.tensor([ratio * 0.3])).requires_grad_()
    result = ppo_clipped_loss(log_prob, LOG(torch.tensor([0.3])), torch.tensor([advantage]), clip=0.2)
    assert result.item() == pytest.approx(loss, abs=1e-6)
    result.sum().backward()
    assert log_prob.grad.item() == pytest.approx(gradient, abs=1e-6)


def test_ppo_clipped_loss_is_the_formula_of_the_paper():
    generator = torch.Generator().manual_seed(0)
    log_prob = torch.randn(2000, generator=generator).mul(0.3).requires_grad_()
    advantage = torch.randn(2000, generator=generator)
    found = ppo_clipped_loss(log_prob, torch.zeros(2000), advantage, clip=0.2)
    ratio = log_prob.exp()
    expected = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
    torch.testing.assert_close(found, expected)
    slopes = [torch.autograd.grad(loss.sum(), log_prob, retain_graph=True)[0] for loss in (found, expected)]
    assert torch.equal(*slopes)
    assert 100 < (slopes[0] == 0).sum() < 1900


@pytest.mark.parametrize(
    ("value", "clip", "expected"),
    [
        (3.0, None, 4.0),
        (1.1, 0.2, 0.01),  # old value 1.0: inside the clip, the plain error
        (3.0, 0.2, 4.0),  # the unclipped error is larger
        (0.9, 0.2, 0.01),
    ],
)
def test_clipped_value_loss_by_hand(value, clip, expected):
    target = torch.tensor([1.0])
    loss = clipped_value_loss(torch.tensor([value]), torch.tensor([1.0]), target, clip)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_a_value_that_moved_too_far_towards_its_target_gets_no_more_gradient():
    value = torch.tensor([1.5], requires_grad=True)
    loss = clipped_value_loss(value, torch.tensor([1.0]), torch.tensor([2.0]), clip=0.2)
    assert loss.item() == pytest.approx(0.64)
    loss.sum().backward()
    assert value.grad.item() == 0.0


def test_normalize_advantages_by_hand():
    assert normalize_advantages(torch.tensor([1.0, 3.0])).tolist() == pytest.approx([-1.0, 1.0])
    assert normalize_advantages(torch.tensor([5.0])).tolist() == [0.0]


def test_padding_takes_no_part_in_normalization():
    advantage = torch.tensor([[1.0, 100.0], [3.0, math.nan]])
    mask = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    normalized = normalize_advantages(advantage, mask)
    torch.testing.assert_close(normalized, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
    assert normalize_advantages(advantage, torch.zeros(2, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_approximate_kl_by_hand():
    old = LOG(torch.tensor([0.5, 0.5]))
    new = LOG(torch.tensor([1.0, 0.25]))
    expected = ((2 - 1 - math.log(2)) + (0.5 - 1 - math.log(0.5))) / 2
    assert approximate_kl(new, old).item() == pytest.approx(expected, abs=1e-6)
    assert approximate_kl(new, old, torch.tensor([True, False])).item() == pytest.approx(1 - math.log(2), abs=1e-6)
    assert approximate_kl(old, old).item() == 0.0


def test_approximate_kl_estimates_the_kl_divergence():
    generator = torch.Generator().manual_seed(0)
    old, new = torch.tensor([0.2, 0.8]), torch.tensor([0.4, 0.6])
    actions = torch.multinomial(old, 200_000, replacement=True, generator=generator)
    exact = (old * (old / new).log()).sum().item()
    assert approximate_kl(LOG(new)[actions], LOG(old)[actions]).item() == pytest.approx(exact, rel=0.02)


def test_clip_fraction_counts_ratios_beyond_the_clip():
    ratios = torch.tensor([0.7, 0.9, 1.1, 1.3])
    assert clip_fraction(LOG(ratios), torch.zeros(4), 0.2).item() == 0.5
    assert clip_fraction(LOG(ratios), torch.zeros(4), 0.2, torch.tensor([1, 1, 1, 0])).item() == pytest.approx(1 / 3)


def test_explained_variance_by_hand():
    target = torch.tensor([1.0, 2.0, 3.0])
    assert explained_variance(target + 7, target).item() == 1.0
    assert explained_variance(torch.zeros(3), target).item() == 0.0
    assert explained_variance(-target, target).item() == pytest.approx(-3.0)
    assert explained_variance(target.clone(), target, torch.tensor([1, 1, 0])).item() == 1.0
    assert math.isnan(explained_variance(target, torch.ones(3)).item())


def test_masked_mean_ignores_what_does_not_count():
    assert masked_mean(torch.tensor([1.0, 5.0])).item() == 3.0
    assert masked_mean(torch.tensor([1.0, math.inf]), torch.tensor([1, 0])).item() == 1.0
    assert masked_mean(torch.tensor([1.0]), torch.tensor([0])).item() == 0.0
