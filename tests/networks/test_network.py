from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish import nest, specs
from alfish.networks.actor import ActorNetwork, ActorRnnNetwork
from alfish.networks.actor_distribution import ActorDistributionNetwork, ActorDistributionRnnNetwork
from alfish.networks.critic import CriticNetwork, CriticRnnNetwork
from alfish.networks.network import unroll_network
from alfish.networks.q import QNetwork, QRnnNetwork
from alfish.networks.value import ValueNetwork, ValueRnnNetwork
from alfish.specs import BoundedTensorSpec, TensorSpec
from tests.networks.test_recurrent import B, T, random_state, some_resets, step_by_step

OBSERVATION = TensorSpec((3,))
BOX = BoundedTensorSpec((2,), torch.float32, np.float32(-1), np.float32(1))
CHOICE = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(3))


@pytest.mark.parametrize(
    "net",
    [
        ActorNetwork(OBSERVATION, BOX, fc_layer_params=(6,)),
        ActorRnnNetwork(OBSERVATION, BOX, lstm_hidden_size=6),
        ActorDistributionNetwork(OBSERVATION, {"a": CHOICE, "b": BOX}, fc_layer_params=(6,)),
        ActorDistributionRnnNetwork(OBSERVATION, {"a": CHOICE, "b": BOX}, lstm_hidden_size=6),
        CriticNetwork((OBSERVATION, BOX), joint_fc_layer_params=(6,)),
        CriticRnnNetwork((OBSERVATION, BOX), joint_fc_layer_params=(6,), lstm_hidden_size=(5, 4)),
        QNetwork(OBSERVATION, CHOICE, fc_layer_params=(6,)),
        QRnnNetwork(OBSERVATION, CHOICE, lstm_hidden_size=6),
        ValueNetwork(OBSERVATION, fc_layer_params=(6,)),
        ValueRnnNetwork(OBSERVATION, lstm_hidden_size=6),
    ],
    ids=lambda net: type(net).__name__,
)
def test_unrolling_any_network_equals_its_steps(net) -> None:
    torch.manual_seed(0)
    inputs = nest.map(lambda spec: torch.randn(T, B, *spec.shape), net.input_tensor_spec)
    state = random_state(net)
    expected, expected_state = step_by_step(net, inputs, state, some_resets())
    output, final_state = unroll_network(net, inputs, state, some_resets())
    assert nest.same_structure(output, expected)
    for ours, theirs in zip(nest.leaves((output, final_state)), nest.leaves((expected, expected_state)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert specs.zeros(net.state_spec, B) == () or "Rnn" in type(net).__name__
