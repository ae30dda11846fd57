from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.func import functional_call

from alfish.errors import ConfigError
from alfish.networks.activations import Activation, bare, relu, tanh
from alfish.networks.layers import (
    BoundedSquash,
    ConvStack,
    DenseLayer,
    DenseStack,
    OutputLayer,
    batched_linear,
    check_sizes,
)
from alfish.specs import BoundedTensorSpec


def stack(layer_norm: bool = False) -> DenseStack:
    return DenseStack(3, [DenseLayer(5, torch.tanh, None, layer_norm), DenseLayer(2, torch.relu, None, layer_norm)])


def test_dense_stack_is_its_layers_in_order() -> None:
    net, x = stack(), torch.randn(4, 7, 3)
    first, second = net.layers
    torch.testing.assert_close(net(x), torch.relu(second(torch.tanh(first(x)))))
    assert net.output_size == 2


def test_layer_normalisation_comes_before_the_activation() -> None:
    net, x = stack(layer_norm=True), torch.randn(4, 3)
    (first, second), (norm, norm2) = net.layers, net.norms
    torch.testing.assert_close(net(x), torch.relu(norm2(second(torch.tanh(norm(first(x)))))))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_what_each_layer_gives_can_be_asked_for(layer_norm: bool) -> None:
    net, x = stack(layer_norm), torch.randn(4, 7, 3)
    first, last = net.layer_outputs(x)
    torch.testing.assert_close(last, net(x))
    hidden = net.layers[0](x)
    torch.testing.assert_close(first, torch.tanh(net.norms[0](hidden) if layer_norm else hidden))


@pytest.mark.parametrize("activation", [torch.relu, relu, tanh])
def test_what_a_stack_is_given_stays_as_it_was(activation: Activation) -> None:
    stack = DenseStack(4, [DenseLayer(4, bare(activation, "here"))] * 2)
    x = torch.randn(5, 4, requires_grad=True)
    before = x.detach().clone()
    outputs = stack.layer_outputs(x)
    kept = [output.detach().clone() for output in outputs]
    stack(x).sum().backward()
    assert torch.equal(x, before)
    assert all(torch.equal(output, copy) for output, copy in zip(outputs, kept, strict=True))


def test_an_empty_stack_passes_on() -> None:
    net, x = DenseStack(3, []), torch.randn(2, 3)
    assert net(x) is x
    assert net.output_size == 3


def test_a_copy_has_its_own_weights() -> None:
    net, x = stack(), torch.randn(4, 3)
    before = net(x)
    other = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert not other(x).any()
    assert torch.equal(net(x), before)


def test_loaded_moved_and_substituted_weights_are_seen() -> None:
    net, x = stack(), torch.randn(4, 3)
    zeros = {name: torch.zeros_like(value) for name, value in net.named_parameters()}
    assert not functional_call(net, zeros, (x,)).any()
    assert net.double()(x.double()).dtype == torch.float64
    net.float().load_state_dict(zeros)
    assert not net(x).any()


@pytest.mark.parametrize("channels_last", [False, True])
def test_convolution_of_both_layouts(channels_last: bool) -> None:
    torch.manual_seed(0)
    shape = (8, 10, 3) if channels_last else (3, 8, 10)
    net = ConvStack(shape, ((4, 3, 2), (6, 2, 1, 1)), torch.relu, None, channels_last)
    image = torch.randint(0, 256, (2, 5, *shape), dtype=torch.uint8)
    x = (image.movedim(-1, -3) if channels_last else image).flatten(0, 1) / 255
    expected = net.layers[1](net.layers[0](x).relu()).relu().flatten(1).unflatten(0, (2, 5))
    torch.testing.assert_close(net(image), expected)
    assert net.output_size == expected.shape[-1]


def test_float_images_are_not_scaled() -> None:
    net = ConvStack((1, 4, 4), ((2, 2, 1),), torch.relu, None, False)
    image = torch.rand(3, 1, 4, 4) * 255
    torch.testing.assert_close(net(image), net.layers[0](image).relu().flatten(1))


def test_a_kernel_that_does_not_fit_is_named() -> None:
    with pytest.raises(ConfigError, match=r"kernel of 8x8 does not fit the 4x4 that is left"):
        ConvStack((3, 10, 10), ((4, 3, 2), (8, 8, 1)), torch.relu, None, False)


def test_sizes_want_a_tuple() -> None:
    assert check_sizes(None, "fc_layer_params") == ()
    assert check_sizes([3, 4], "fc_layer_params") == (3, 4)
    with pytest.raises(ConfigError, match=r"fc_layer_params = 64: .* Write \(64,\)"):
        check_sizes(64, "fc_layer_params")
    with pytest.raises(ConfigError, match="at least 1"):
        check_sizes((64, 0), "fc_layer_params")


def test_output_layer_is_float32_under_autocast() -> None:
    layer = OutputLayer(3, 2, None, gain=1.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(4, 3)).dtype == torch.float32


def test_bounded_squash_leaves_unbounded_elements_alone() -> None:
    spec = BoundedTensorSpec((3,), torch.float32, np.float32([-2, 0, -np.inf]), np.float32([2, 10, np.inf]))
    raw = torch.tensor([[0.0, 0.0, 7.0], [100.0, -100.0, -7.0]])
    squashed = BoundedSquash(spec, torch.tanh)(raw)
    torch.testing.assert_close(squashed, torch.tensor([[0.0, 5.0, 7.0], [2.0, 0.0, -7.0]]))


def one_by_one(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.nn.functional.linear(*each) for each in zip(x, weight, bias, strict=False)])


@pytest.mark.parametrize("leading", [(5,), (4, 5)])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_batched_linear_is_several_linear_layers(
    leading: tuple[int, ...], outputs: int, number: int, turned: bool
) -> None:
    shapes = ((number, *leading, 6), (3, outputs, 6), (3, outputs))
    x, weight, bias = (torch.randn(*shape, dtype=torch.float64) for shape in shapes)
    if turned:
        x = x.mT.contiguous().mT
    inputs = [leaf.requires_grad_() for leaf in (x, weight, bias)]
    results = []
    for way in (batched_linear, one_by_one):
        answer = way(*inputs)
        gradients = torch.autograd.grad(answer.sin().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(gradients[0].square().sum(), inputs)
        results.append([answer, *gradients, *second])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(batched_linear(*inputs), results[0][0])


def test_batched_linear_under_autocast_and_torch_func() -> None:
    x, weight, bias = torch.randn(3, 5, 6), torch.randn(3, 1, 6), torch.randn(3, 1)
    expected = torch.func.grad(lambda weight: one_by_one(x, weight, bias).sum())(weight)
    found = torch.func.grad(lambda weight: batched_linear(x, weight, bias).sum())(weight)
    torch.testing.assert_close(found, expected)
    weight.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        answer = batched_linear(x, weight, bias)
    assert answer.dtype == torch.bfloat16
    answer.float().sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, expected, rtol=0.02, atol=0.02)
