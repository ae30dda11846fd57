from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
import torch

from alfish import nest, specs
from alfish.networks.critic import CriticNetwork, CriticRnnNetwork
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.ensemble import Ensemble
from alfish.networks.layers import DenseStack
from alfish.networks.network import Network
from alfish.networks.q import QNetwork
from alfish.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((3,))
IMAGE = TensorSpec((2, 8, 8))
BOX = BoundedTensorSpec((2,), torch.float32, np.float32(-1), np.float32(1))
CHOICE = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(3))


def dense() -> Network:
    return CriticNetwork(
        (OBSERVATION, BOX), TensorSpec((4,)), action_fc_layer_params=(5,), joint_fc_layer_params=(8, 8)
    )


def discrete() -> Network:
    return QNetwork(OBSERVATION, CHOICE, fc_layer_params=(8,))


def dueling() -> Network:
    return QNetwork(OBSERVATION, CHOICE, fc_layer_params=(8,), head_fc_layer_params=(6,), dueling=True)


def convolutional() -> Network:
    return CriticNetwork((IMAGE, BOX), observation_conv_layer_params=((3, 3, 2),), joint_fc_layer_params=(8,))


def normalised() -> Network:
    return EncodingNetwork(OBSERVATION, fc_layer_params=(8,), use_fc_ln=True)


def competing() -> Network:
    """Its activation looks at all elements of a layer."""
    return EncodingNetwork(OBSERVATION, fc_layer_params=(8, 6), activation=lambda x: x.softmax(-1))


def remembering() -> Network:
    return CriticRnnNetwork((OBSERVATION, BOX), lstm_hidden_size=(6, 5))


KINDS = [dense, discrete, dueling, convolutional, normalised, competing, remembering]


def with_copies(make: Callable[[], Network], number: int) -> tuple[Ensemble, list[Network]]:
    """An ensemble and the separate networks it was made of."""
    separate: list[Network] = []

    def make_and_keep() -> Network:
        made = make()
        separate.append(deepcopy(made))
        return made

    return Ensemble(make_and_keep, number), separate


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("leading", [(5,), (4, 5)])
def test_it_equals_separate_networks(make: Callable[[], Network], leading: tuple[int, ...]) -> None:
    ensemble, separate = with_copies(make, 3)
    spec = ensemble.input_tensor_spec
    inputs = nest.map(lambda leaf: torch.randn(*leading, *leaf.shape), spec)
    state = specs.zeros(ensemble.state_spec, 5)
    is_first = torch.rand(leading) < 0.3 if len(leading) == 2 else None
    if is_first is None:
        output, _ = ensemble(inputs, state)
    else:
        output, _ = ensemble.unroll(inputs, state, is_first)
    for row, network in enumerate(separate):
        own_state = specs.zeros(network.state_spec, 5)
        expected = network(inputs, own_state) if is_first is None else network.unroll(inputs, own_state, is_first)
        torch.testing.assert_close(output[row], expected[0])


@pytest.mark.parametrize("make", KINDS)
def test_gradients_equal_those_of_separate_networks(make: Callable[[], Network]) -> None:
    ensemble, separate = with_copies(make, 2)
    inputs = nest.map(lambda leaf: torch.randn(5, *leaf.shape), ensemble.input_tensor_spec)
    output, _ = ensemble(inputs, specs.zeros(ensemble.state_spec, 5))
    (output[0].square().sum() + 3 * output[1].sum()).backward()
    first, second = (network(inputs, specs.zeros(network.state_spec, 5))[0] for network in separate)
    first.square().sum().backward()
    (3 * second.sum()).backward()
    total = sum(p.grad.square().sum() for p in ensemble.parameters() if p.grad is not None)
    expected = sum(p.grad.square().sum() for net in separate for p in net.parameters() if p.grad is not None)
    torch.testing.assert_close(total, expected)


@pytest.mark.parametrize("make", KINDS)
def test_the_first_copies_can_be_asked_alone(make: Callable[[], Network]) -> None:
    ensemble = Ensemble(make, 3)
    inputs = nest.map(lambda leaf: torch.randn(4, 5, *leaf.shape), ensemble.input_tensor_spec)
    state, is_first = specs.zeros(ensemble.state_spec, 5), torch.zeros(4, 5, dtype=torch.bool)
    every, _ = ensemble.unroll(inputs, state, is_first)
    for number in (1, 2):
        first, _ = ensemble.unroll(inputs, state, is_first, number=number)
        torch.testing.assert_close(first, every[:number])


@pytest.mark.parametrize("make", KINDS)
def test_the_copies_start_apart(make: Callable[[], Network]) -> None:
    ensemble = Ensemble(make, 2)
    inputs = nest.map(lambda leaf: torch.randn(5, *leaf.shape), ensemble.input_tensor_spec)
    one, two = ensemble(inputs, specs.zeros(ensemble.state_spec, 5))[0]
    assert (one != two).any()


def test_fully_connected_networks_have_one_parameter_for_all_copies() -> None:
    sizes = [tuple(parameter.shape) for parameter in Ensemble(dense, 10).parameters()]
    assert sizes == [(10, 5, 2), (10, 5), (10, 8, 8), (10, 8), (10, 8, 8), (10, 8), (10, 4, 8), (10, 4)]


def test_memory_has_a_row_for_every_copy() -> None:
    ensemble, separate = with_copies(remembering, 2)
    assert ensemble.state_spec == tuple((TensorSpec((2, size)), TensorSpec((2, size))) for size in (6, 5))
    inputs = (torch.randn(3, 3), torch.randn(3, 2))
    _, state = ensemble(inputs, specs.zeros(ensemble.state_spec, 3))
    _, second = separate[1](inputs, specs.zeros(separate[1].state_spec, 3))
    assert state[0][0].shape == (3, 2, 6)
    torch.testing.assert_close(state[1][0][:, 1], second[1][0])


def test_a_copy_of_an_ensemble_is_independent_and_takes_its_state_dict() -> None:
    ensemble = Ensemble(dense, 2)
    target = deepcopy(ensemble)
    inputs = (torch.randn(3, 3), torch.randn(3, 2))
    with torch.no_grad():
        for parameter in ensemble.parameters():
            parameter.add_(1.0)
    assert not torch.allclose(ensemble(inputs)[0], target(inputs)[0])
    target.load_state_dict(ensemble.state_dict())
    torch.testing.assert_close(ensemble(inputs)[0], target(inputs)[0])


@pytest.mark.parametrize("make", [normalised, competing, lambda: EncodingNetwork(OBSERVATION, fc_layer_params=(8, 6))])
def test_what_each_layer_gives_can_be_asked_for_with_a_time_axis(make: Callable[[], Network]) -> None:
    ensemble = Ensemble(make, 3)
    stacks = [module for module in ensemble.modules() if isinstance(module, DenseStack)]
    inputs = torch.randn(3, 4, 5, 3) if len(stacks) == 1 else torch.randn(4, 5, 3)
    outputs = stacks[0].layer_outputs(inputs)
    torch.testing.assert_close(outputs[-1], stacks[0](inputs))
    assert all(output.shape[:-1] == inputs.shape[:-1] for output in outputs)
