from __future__ import annotations

import gin
import torch

from alfish.networks.initializers import zeros
from alfish.networks.value import ValueNetwork, ValueRnnNetwork
from alfish.specs import TensorSpec

OBSERVATION = TensorSpec((3,))


def test_one_value_per_step() -> None:
    net = ValueNetwork(OBSERVATION, fc_layer_params=(6,))
    assert net(torch.randn(5, 3))[0].shape == (5,)
    assert net(torch.randn(7, 5, 3))[0].shape == (7, 5)


def test_one_value_per_reward() -> None:
    reward = TensorSpec((4,))
    net = ValueNetwork(OBSERVATION, reward, fc_layer_params=(6,))
    assert net(torch.randn(7, 5, 3))[0].shape == (7, 5, 4)
    assert ValueNetwork(OBSERVATION, TensorSpec((1,)))(torch.randn(5, 3))[0].shape == (5, 1)
    recurrent = ValueRnnNetwork(OBSERVATION, reward, lstm_hidden_size=6, value_fc_layer_params=(5,))
    state = ((torch.zeros(5, 6), torch.zeros(5, 6)),)
    assert recurrent(torch.randn(5, 3), state)[0].shape == (5, 4)


def test_the_last_layer_starts_orthogonal_with_gain_1() -> None:
    weight = ValueNetwork(OBSERVATION, TensorSpec((4,)))._head._output.layer.weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(4))
    assert not ValueNetwork(OBSERVATION, last_kernel_initializer=zeros)(torch.randn(5, 3))[0].any()


def test_the_action_mask_is_not_encoded() -> None:
    spec = {"x": OBSERVATION, "action_mask": TensorSpec((4,))}
    net = ValueNetwork(spec)
    x = torch.randn(5, 3)
    one, _ = net({"x": x, "action_mask": torch.zeros(5, 4)})
    two, _ = net({"x": x, "action_mask": torch.ones(5, 4)})
    assert torch.equal(one, two)


def test_gin_binds_the_layers_of_the_value_alone() -> None:
    gin.parse_config("ValueNetwork.fc_layer_params = (9,)\ncritic/ValueNetwork.fc_layer_params = (7,)")
    assert ValueNetwork(OBSERVATION)._encoding.output_size == 9
    with gin.config_scope("critic"):
        assert ValueNetwork(OBSERVATION)._encoding.output_size == 7
