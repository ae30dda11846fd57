from __future__ import annotations

import numpy as np
import torch

from alfish.networks.critic import CriticNetwork, CriticRnnNetwork
from alfish.networks.network import unroll_network
from alfish.networks.recurrent import GRUEncodingNetwork
from alfish.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((3,))
BOX = BoundedTensorSpec((2,), torch.float32, np.float32(-1), np.float32(1))
CHOICE = BoundedTensorSpec((), torch.int64, np.asarray(1), np.asarray(4))


def test_values_depend_on_observation_and_action() -> None:
    net = CriticNetwork((OBSERVATION, BOX))
    observation, action = torch.randn(5, 3, requires_grad=True), torch.randn(5, 2, requires_grad=True)
    value, state = net((observation, action))
    value.sum().backward()
    assert value.shape == (5,)
    assert state == ()
    assert (observation.grad.abs().sum(-1) > 0).all()
    assert (action.grad.abs().sum(-1) > 0).all()


def test_own_layers_before_the_joint_ones() -> None:
    net = CriticNetwork(
        (OBSERVATION, BOX),
        observation_fc_layer_params=(6, 5),
        action_fc_layer_params=(4,),
        joint_fc_layer_params=(7,),
    )
    sizes = [tuple(p.shape) for p in net.parameters() if p.dim() == 2]
    assert sizes == [(6, 3), (5, 6), (4, 2), (7, 9), (1, 7)]


def test_discrete_and_nested_actions() -> None:
    net = CriticNetwork((OBSERVATION, {"a": CHOICE, "b": BOX}), joint_fc_layer_params=(7,))
    action = {"a": torch.tensor([1, 4]), "b": torch.zeros(2, 2)}
    one, two = net((torch.zeros(2, 3), action))[0]
    assert one != two
    first = next(p for p in net.parameters() if p.dim() == 2)
    assert first.shape == (7, 3 + 4 + 2)


def test_images_and_vector_rewards() -> None:
    spec = {"camera": TensorSpec((3, 12, 12), torch.uint8), "speed": TensorSpec((2,))}
    net = CriticNetwork((spec, BOX), TensorSpec((4,)), observation_conv_layer_params=((4, 3, 2),))
    observation = {"camera": torch.zeros(7, 5, 3, 12, 12, dtype=torch.uint8), "speed": torch.zeros(7, 5, 2)}
    assert net((observation, torch.zeros(7, 5, 2)))[0].shape == (7, 5, 4)


def test_critics_with_memory() -> None:
    net = CriticRnnNetwork(
        (OBSERVATION, BOX),
        observation_fc_layer_params=(6,),
        lstm_hidden_size=5,
        action_fc_layer_params=(4,),
        joint_fc_layer_params=(7,),
        encoding_network_ctor=GRUEncodingNetwork,
    )
    assert net.state_spec == (TensorSpec((5,)),)
    sizes = [tuple(p.shape) for p in net.parameters() if p.dim() == 2]
    assert sizes == [(6, 3), (15, 6), (15, 5), (4, 2), (7, 9), (1, 7)]
    value, (hidden,) = net((torch.randn(2, 3), torch.randn(2, 2)), (torch.zeros(2, 5),))
    assert value.shape == (2,)
    assert hidden.abs().sum() > 0


def test_judging_an_action_leaves_no_trace_in_the_memory() -> None:
    net = CriticRnnNetwork((OBSERVATION, BOX), lstm_hidden_size=5)
    zeros = ((torch.zeros(2, 5), torch.zeros(2, 5)),)
    observation, action = torch.randn(4, 2, 3), torch.randn(4, 2, 2)
    other = action.clone()
    other[1] += 1.0
    values, state = unroll_network(net, (observation, action), zeros)
    other_values, other_state = unroll_network(net, (observation, other), zeros)
    assert (values == other_values).all(-1).tolist() == [True, False, True, True]
    assert all(torch.equal(one, two) for one, two in zip(state[0], other_state[0], strict=True))
