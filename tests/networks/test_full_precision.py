from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish import nest, specs
from alfish.networks.actor_distribution import ActorDistributionRnnNetwork
from alfish.networks.distributions import SquashedNormal
from alfish.networks.full_precision import full_precision
from alfish.networks.recurrent import GRUEncodingNetwork, LSTMEncodingNetwork
from alfish.specs import BoundedTensorSpec, TensorSpec


def product() -> torch.Tensor:
    return torch.full((1, 1), 1.001) @ torch.ones(1)


def test_products_inside_are_exact_and_those_around_are_not() -> None:
    with torch.autocast("cpu"):
        assert product().item() == 1.0
        with full_precision(torch.ones(1)):
            assert product().item() == pytest.approx(1.001)
        assert product().dtype == torch.bfloat16


def test_without_autocast_nothing_is_done() -> None:
    assert full_precision(torch.ones(1)) is full_precision(torch.zeros(2))


def test_the_entropy_of_a_policy_is_exact_under_autocast() -> None:
    policy = SquashedNormal(torch.full((2, 1), 0.3), torch.full((2, 1), 0.7))
    expected = policy.entropy()
    with torch.autocast("cpu"):
        assert torch.equal(policy.entropy(), expected)


@pytest.mark.parametrize("network", [LSTMEncodingNetwork, GRUEncodingNetwork])
@pytest.mark.parametrize("length", [1, 5])
def test_memory_is_exact_under_autocast_in_steps_and_sequences(network: Any, length: int) -> None:
    net = network(TensorSpec((3,)), hidden_size=4)
    state, inputs = specs.zeros(net.state_spec, 2), torch.randn(length, 2, 3)

    def states() -> list[torch.Tensor]:
        return nest.leaves((net(inputs[0], state)[1], net.unroll(inputs, state)[1]))

    exact = states()
    with torch.autocast("cpu"):
        assert all(map(torch.equal, states(), exact))


@pytest.mark.parametrize("network", [LSTMEncodingNetwork, GRUEncodingNetwork])
def test_memory_is_float32_also_where_its_input_is_not(network: Any) -> None:
    net = network(TensorSpec((3,)), pre_fc_layer_params=(4,), hidden_size=4)
    state = specs.zeros(net.state_spec, 2)
    with torch.autocast("cpu"):
        new = nest.leaves((net(torch.ones(2, 3), state)[1], net.unroll(torch.ones(5, 2, 3), state)[1]))
    assert {leaf.dtype for leaf in new} == {torch.float32}


def test_a_policy_with_memory_is_nearly_the_same_under_autocast() -> None:
    action = BoundedTensorSpec((), torch.int64, 0, 2)
    net = ActorDistributionRnnNetwork(TensorSpec((3,)), action, fc_layer_params=(8,), lstm_hidden_size=8)
    state = tuple((torch.zeros(4, 8), torch.zeros(4, 8)) for _ in range(1))
    inputs = torch.randn(6, 4, 3)
    exact, _ = net.unroll(inputs, state)
    with torch.autocast("cpu"):
        near, _ = net.unroll(inputs, state)
    assert near.logits.dtype == torch.float32
    torch.testing.assert_close(near.logits, exact.logits, atol=1e-3, rtol=0)
    assert not torch.equal(near.logits, exact.logits)
