from __future__ import annotations

import pytest
import torch

from alfish import nest, specs
from alfish.errors import ConfigError
from alfish.networks.network import unroll_network
from alfish.networks.recurrent import GRUEncodingNetwork, LSTMEncodingNetwork
from alfish.specs import TensorSpec

KINDS = [LSTMEncodingNetwork, GRUEncodingNetwork]
T, B = 9, 4


def step_by_step(net, inputs, state, is_first):
    """The definition of an unroll: one step at a time, the state 0 where an episode starts."""
    outputs = []
    for time in range(len(is_first)):
        state = nest.where(is_first[time], nest.map(torch.zeros_like, state), state)
        output, state = net(nest.index(inputs, time), state)
        outputs.append(output)
    return nest.stack(outputs), state


def random_state(net):
    return nest.map(lambda spec: torch.randn(B, *spec.shape), net.state_spec)


def some_resets() -> torch.Tensor:
    is_first = torch.zeros(T, B, dtype=torch.bool)
    is_first[0, 1] = is_first[3, 0] = is_first[3, 2] = is_first[4, 2] = is_first[8, 3] = True
    return is_first


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("resets", ["none", "some", "all"])
def test_a_sequence_equals_its_steps(kind, resets: str) -> None:
    torch.manual_seed(0)
    net = kind(TensorSpec((3,)), pre_fc_layer_params=(6,), hidden_size=(5, 7), post_fc_layer_params=(4,))
    inputs, state = torch.randn(T, B, 3), random_state(net)
    is_first = {"none": torch.zeros(T, B), "some": some_resets(), "all": torch.ones(T, B)}[resets].bool()
    expected, expected_state = step_by_step(net, inputs, state, is_first)
    output, final_state = unroll_network(net, inputs, state, is_first)
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(nest.leaves(final_state), nest.leaves(expected_state), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert output.shape == (T, B, net.output_size)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_a_sequence_equal_those_of_its_steps(kind) -> None:
    torch.manual_seed(0)
    net = kind(TensorSpec((3,)), pre_fc_layer_params=(6,), hidden_size=(5,), post_fc_layer_params=(4,))
    inputs, state = torch.randn(T, B, 3), random_state(net)
    step_by_step(net, inputs, state, some_resets())[0].square().sum().backward()
    expected = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    unroll_network(net, inputs, state, some_resets())[0].square().sum().backward()
    for parameter, gradient in zip(net.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-5)
        assert gradient.abs().sum() > 0


def test_nothing_passes_the_start_of_an_episode() -> None:
    net = LSTMEncodingNetwork(TensorSpec((3,)), hidden_size=5)
    is_first = torch.zeros(T, B, dtype=torch.bool)
    is_first[4] = True
    inputs = torch.randn(T, B, 3)
    output, _ = unroll_network(net, inputs, random_state(net), is_first)
    changed = inputs.clone()
    changed[:4] += 1
    other, _ = unroll_network(net, changed, random_state(net), is_first)
    assert torch.equal(output[4:], other[4:])
    assert not torch.equal(output[:4], other[:4])


@pytest.mark.parametrize("kind", KINDS)
def test_the_memory_matters(kind) -> None:
    net = kind(TensorSpec((3,)), hidden_size=5)
    x = torch.randn(B, 3)
    assert not torch.equal(net(x, random_state(net))[0], net(x, random_state(net))[0])


def test_state_specs() -> None:
    lstm = LSTMEncodingNetwork(TensorSpec((3,)), hidden_size=(5, 7))
    five, seven = TensorSpec((5,)), TensorSpec((7,))
    assert lstm.state_spec == ((five, five), (seven, seven))
    assert GRUEncodingNetwork(TensorSpec((3,)), hidden_size=(5, 7)).state_spec == (five, seven)
    _, state = lstm(torch.randn(2, 3), specs.zeros(lstm.state_spec, 2))
    assert nest.map(lambda leaf: leaf.shape, state) == (((2, 5), (2, 5)), ((2, 7), (2, 7)))


def test_images_and_nests_before_the_memory() -> None:
    spec = {"camera": TensorSpec((3, 12, 12), torch.uint8), "speed": TensorSpec((2,))}
    net = LSTMEncodingNetwork(spec, conv_layer_params=((4, 3, 2),), hidden_size=6)
    inputs = {"camera": torch.randint(0, 256, (T, B, 3, 12, 12), dtype=torch.uint8), "speed": torch.randn(T, B, 2)}
    state = random_state(net)
    expected, _ = step_by_step(net, inputs, state, some_resets())
    torch.testing.assert_close(unroll_network(net, inputs, state, some_resets())[0], expected, rtol=1e-4, atol=1e-5)


def test_a_recurrent_layer_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"hidden_size = \(\)"):
        LSTMEncodingNetwork(TensorSpec((3,)), hidden_size=())
