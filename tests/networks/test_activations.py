from __future__ import annotations

import gin
import pytest
import torch

from alfish.errors import ConfigError
from alfish.networks import activations
from alfish.networks.activations import bare, tanh
from alfish.networks.encoding import EncodingNetwork
from alfish.specs import TensorSpec

NAMES = ("relu", "tanh", "sigmoid", "elu", "leaky_relu", "gelu", "silu", "softplus", "exp", "clipped_exp", "identity")


@pytest.mark.parametrize("name", NAMES)
def test_every_activation_has_an_unambiguous_gin_name(name: str) -> None:
    gin.parse_config(f"EncodingNetwork.activation = @{name}")
    gin.parse_config("EncodingNetwork.fc_layer_params = (5,)")
    net = EncodingNetwork(TensorSpec((3,)))
    x = torch.randn(2, 3)
    layer = net._dense.layers[0]
    torch.testing.assert_close(net(x)[0], getattr(activations, name)(layer(x)))


def test_networks_call_the_function_and_not_gins_wrapper() -> None:
    inner = bare(tanh, "activation")
    assert not hasattr(inner, "__wrapped__")
    assert torch.equal(inner(torch.ones(1)), torch.tanh(torch.ones(1)))


def test_foreign_functions_stay_as_they_are() -> None:
    assert bare(torch.tanh, "activation") is torch.tanh
    module = torch.nn.PReLU()
    assert bare(module, "activation") is module


def test_clipped_exp_is_clipped() -> None:
    values = activations.clipped_exp(torch.tensor([-100.0, 0.0, 100.0]))
    torch.testing.assert_close(values, torch.tensor([-20.0, 0.0, 2.0]).exp())


def test_a_string_is_told_to_become_a_reference() -> None:
    with pytest.raises(ConfigError, match=r"EncodingNetwork.activation = @tanh"):
        EncodingNetwork(TensorSpec((3,)), activation="tanh")


def test_a_class_is_not_an_activation() -> None:
    with pytest.raises(ConfigError, match="function from tensor to tensor"):
        EncodingNetwork(TensorSpec((3,)), activation=torch.nn.Tanh)


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid"])
def test_in_place_is_the_same_function(name: str) -> None:
    function = bare(getattr(activations, name), "here")
    x = torch.randn(5, 3)
    assert torch.equal(activations.in_place(function)(x.clone()), function(x))


def test_only_functions_of_this_module_are_known_to_be_elementwise() -> None:
    assert activations.is_elementwise(bare(activations.silu, "here"))
    assert not activations.is_elementwise(lambda x: x.softmax(-1))
