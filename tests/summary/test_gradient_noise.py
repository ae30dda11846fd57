"""The noise scale is what McCandlish et al. 2018 say it is: tr(Sigma) / |G|^2."""

from __future__ import annotations

import itertools
import logging

import pytest
import torch

from alfish.progress import Progress
from alfish.summary.gradient_noise import (
    GradientNoise,
    NoiseScaleEstimator,
    half_gradients,
    halves,
    signal_and_noise,
)
from alfish.summary.summary import Summary


def test_literal_numbers():
    # |G|^2 = 4 and tr(Sigma) = 6 give 4 + 6 / 2 over two samples and 4 + 6 / 8 over eight.
    assert signal_and_noise(small=7.0, large=4.75, num_small=2, num_large=8) == pytest.approx((4.0, 6.0))


def test_the_estimates_have_no_bias():
    gradients = torch.tensor([[1.0, 0.0], [3.0, 1.0], [-1.0, 2.0]])  # each equally likely
    mean = gradients.mean(0)
    expected = (mean.square().sum().item(), gradients.var(0, correction=0).sum().item())
    estimates = []
    for drawn in itertools.product(gradients, repeat=4):
        one, other = torch.stack(drawn[:2]).mean(0), torch.stack(drawn[2:]).mean(0)
        small = (one.square().sum() + other.square().sum()).item() / 2
        estimates.append(signal_and_noise(small, ((one + other) / 2).square().sum().item(), 2, 4))
    assert torch.tensor(estimates).mean(0).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("batch", "steps"), [(8, 1), (32, 1), (9, 1), (8, 3)])
def test_it_converges_to_the_known_value_on_a_noisy_quadratic(batch, steps):
    """Loss |x - target|^2 / 2 with a target of variance 4 and 1: the gradient at x is x, its covariance diag(4, 1)."""
    generator = torch.Generator().manual_seed(0)
    point = torch.tensor([1.0, -2.0], requires_grad=True)
    noise = GradientNoise({"Adam": [point]})
    for _ in range(2000):
        # All steps of a sequence have the same target: only whole sequences are samples.
        target = torch.randn(batch, 2, generator=generator) * torch.tensor([2.0, 1.0])
        losses = ((point - target).square().sum(-1) / 2).expand(steps, batch)
        noise.observe(losses, torch.ones(steps, batch))
    estimator = noise.estimators["Adam"]
    assert estimator.noise == pytest.approx(5.0, rel=0.1)
    assert estimator.signal == pytest.approx(5.0, rel=0.15)
    assert estimator.noise_scale == pytest.approx(1.0, rel=0.15)


def test_the_average_is_that_of_all_first_and_then_follows():
    estimator = NoiseScaleEstimator(rate=0.25)
    assert estimator.noise_scale is None
    for value in (1.0, 2.0, 3.0, 6.0):
        estimator.add(value, 2 * value)
    assert (estimator.signal, estimator.noise, estimator.noise_scale) == (3.0, 6.0, 2.0)
    estimator.add(7.0, 0.0)
    assert (estimator.signal, estimator.noise) == (4.0, 4.5)
    estimator.add(float("nan"), 1.0)
    assert (estimator.signal, estimator.noise) == (4.0, 4.5)


def test_no_noise_scale_where_the_gradient_is_lost_in_noise():
    estimator = NoiseScaleEstimator()
    estimator.add(-0.5, 3.0)
    assert estimator.noise_scale is None


def test_halves_are_even_and_odd_sequences_and_only_what_counts():
    losses = torch.tensor([[1.0, 10.0, 2.0, 20.0, 99.0], [3.0, 30.0, 4.0, 40.0, 99.0]])
    weight = torch.ones(2, 5)
    weight[0, 0] = 0
    first, second, number = halves(losses, weight)
    assert (first, second, number) == (3.0, 25.0, 2)
    assert halves(losses, torch.zeros(2, 5)) is None


def test_of_a_single_sequence_the_steps_are_samples():
    first, second, number = halves(torch.tensor([[1.0], [2.0], [5.0], [4.0]]), torch.ones(4, 1))
    assert (first, second, number) == (3.0, 3.0, 2)


def test_gradients_that_are_there_stay_and_the_graph_serves_again():
    point = torch.tensor([3.0, 4.0], requires_grad=True)
    unused = torch.tensor(1.0, requires_grad=True)
    point.grad = torch.ones(2)
    first, second = point.square().sum() / 2, point[0] * 2
    assert half_gradients(first, second, [point, unused]) == (14.5, 10.25)  # of (3, 4) and (2, 0); of (2.5, 2)
    assert half_gradients(first, second, [unused]) is None
    assert point.grad.tolist() == [1.0, 1.0]
    (first + second).backward()


def test_one_sample_says_nothing_and_that_is_told_once(caplog):
    point = torch.tensor(1.0, requires_grad=True)
    noise = GradientNoise({"Adam": [point]})
    with caplog.at_level(logging.WARNING):
        noise.observe(point.expand(1, 1), torch.ones(1, 1))
        noise.observe((), torch.ones(1, 4))
    (record,) = caplog.records
    assert "TrainerConfig.mini_batch_size" in record.message
    assert noise.estimators["Adam"].noise_scale is None


def test_groups_have_scales_of_their_own_and_survive_a_round_trip():
    first, second = (torch.tensor(value, requires_grad=True) for value in (2.0, 3.0))
    noise = GradientNoise({"Adam": [first], "SGD": [second]})
    noise.observe(first * torch.tensor([[1.0, 3.0]]) + second * torch.tensor([[1.0, 1.0]]), torch.ones(1, 2))
    other = GradientNoise({"Adam": [first], "SGD": [second], "New": [second]})
    other.load_state_dict(noise.state_dict())
    summary = Summary([], Progress())
    summary.enabled = True
    other.summarize(summary)
    assert summary.write() == {
        "GradientNoise/Adam/squared_gradient": 3.0,
        "GradientNoise/Adam/variance": 2.0,
        "GradientNoise/Adam/noise_scale": pytest.approx(2 / 3),
        "GradientNoise/SGD/squared_gradient": 1.0,
        "GradientNoise/SGD/variance": 0.0,
        "GradientNoise/SGD/noise_scale": 0.0,
        "GradientNoise/New/squared_gradient": 0.0,
        "GradientNoise/New/variance": 0.0,
    }
