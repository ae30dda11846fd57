from __future__ import annotations

from math import sqrt

import pytest
import torch
from torch import nn

from alfish.networks.noisy import NoisyLinear, noisy_layers


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_noise_by_hand() -> None:
    layer = NoisyLinear(2, 1, noise_std=sqrt(2.0))  # scales of 1
    layer.reset_noise(generator())
    raw = torch.randn(3, generator=generator())
    noise = raw.sign() * raw.abs().sqrt()
    x = torch.tensor([[3.0, -2.0]])
    weight = layer.weight + noise[2] * noise[:2]
    expected = x @ weight.T + layer.bias + noise[2]
    torch.testing.assert_close(layer(x), expected)


def test_evaluation_has_no_noise() -> None:
    layer = NoisyLinear(4, 3)
    layer.reset_noise(generator())
    x = torch.randn(5, 4)
    expected = x @ layer.weight.T + layer.bias
    assert not torch.allclose(layer(x), expected)
    torch.testing.assert_close(layer.eval()(x), expected)


def test_noise_follows_the_generator_and_not_the_global_one() -> None:
    layer, x = NoisyLinear(4, 3), torch.randn(2, 4)
    outputs = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        layer.reset_noise(generator(7))
        outputs.append(layer(x))
    assert torch.equal(*outputs)
    layer.reset_noise(generator(8))
    assert not torch.equal(layer(x), outputs[0])


def test_strength_of_the_noise() -> None:
    """f(e) has mean 0 and second moment E|e| = sqrt(2 / pi), so the product of two has variance 2 / pi."""
    layer, stream = NoisyLinear(100, 1000, noise_std=0.5), generator()
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
        layer.bias_scale.zero_()
    outputs = []
    for _ in range(50):
        layer.reset_noise(stream)
        outputs.append(layer(torch.eye(100)).detach())
    variance = torch.stack(outputs).var().item()
    assert variance == pytest.approx((0.5 / sqrt(100)) ** 2 * 2 / torch.pi, rel=0.05)


def test_the_strength_is_learned_and_the_noise_is_not_stored() -> None:
    layer = NoisyLinear(3, 2)
    layer.reset_noise(generator())
    layer(torch.ones(1, 3)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in layer.parameters())
    assert set(layer.state_dict()) == {"weight", "bias", "weight_scale", "bias_scale"}


def test_drawing_anew_leaves_a_graph_in_use_alone() -> None:
    layer = NoisyLinear(3, 2)
    layer.reset_noise(generator())
    output = layer(torch.ones(1, 3)).sum()
    expected = torch.outer(layer.noise_out, layer.noise_in)
    layer.reset_noise(generator(1))
    output.backward()
    torch.testing.assert_close(layer.weight_scale.grad, expected)


def test_layers_are_found_in_a_network() -> None:
    first, second = NoisyLinear(3, 3), NoisyLinear(3, 1)
    assert noisy_layers(nn.Sequential(first, nn.ReLU(), second)) == [first, second]
