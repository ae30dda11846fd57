from __future__ import annotations

from math import sqrt

import gin
import pytest
import torch

from alfish.errors import ConfigError
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.initializers import initialize, orthogonal, uniform, variance_scaling, zeros
from alfish.specs import TensorSpec


def test_orthogonal_rows_have_length_gain() -> None:
    weight = torch.empty(4, 9)
    orthogonal(weight, gain=0.5)
    torch.testing.assert_close(weight @ weight.T, 0.25 * torch.eye(4))
    orthogonal(weight)
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(4))


@pytest.mark.parametrize("distribution", ["truncated_normal", "uniform"])
@pytest.mark.parametrize(("mode", "fan"), [("fan_in", 300), ("fan_out", 500), ("fan_avg", 400)])
def test_variance_scaling_has_the_standard_deviation(distribution: str, mode: str, fan: int) -> None:
    torch.manual_seed(0)
    weight = torch.empty(500, 300)
    variance_scaling(weight, gain=2.0, mode=mode, distribution=distribution)
    assert weight.std().item() == pytest.approx(2 / sqrt(fan), rel=0.02)


def test_uniform_and_zeros() -> None:
    weight = torch.empty(50, 50)
    uniform(weight, scale=0.1)
    assert 0.09 < weight.abs().max() <= 0.1
    zeros(weight)
    assert not weight.any()


def test_the_default_is_orthogonal_with_the_gain_asked_for() -> None:
    layer = torch.nn.Linear(9, 4)
    initialize(layer, None, gain=0.01)
    torch.testing.assert_close(layer.weight @ layer.weight.T, 1e-4 * torch.eye(4))
    assert not layer.bias.any()


def test_gin_names_an_initializer_and_its_arguments() -> None:
    gin.parse_config("EncodingNetwork.kernel_initializer = @orthogonal\northogonal.gain = 3.0")
    gin.parse_config("EncodingNetwork.last_kernel_initializer = @zeros")
    net = EncodingNetwork(TensorSpec((9,)), fc_layer_params=(4,), last_layer_size=2)
    hidden, last = net._dense.layers
    torch.testing.assert_close(hidden.weight @ hidden.weight.T, 9 * torch.eye(4))
    assert not last.weight.any()


def test_a_string_is_told_to_become_a_reference() -> None:
    with pytest.raises(ConfigError, match="write @orthogonal"):
        EncodingNetwork(TensorSpec((3,)), fc_layer_params=(4,), kernel_initializer="orthogonal")
