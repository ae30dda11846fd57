from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish.errors import ConfigError
from alfish.networks.noisy import noisy_layers
from alfish.networks.q import QNetwork, QRnnNetwork
from alfish.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((3,))
CHOICE = BoundedTensorSpec((), torch.int64, np.asarray(1), np.asarray(4))


def test_one_value_per_action() -> None:
    net = QNetwork(OBSERVATION, CHOICE, fc_layer_params=(6,))
    assert net(torch.randn(7, 5, 3))[0].shape == (7, 5, 4)


def test_no_maximum_picks_a_masked_action() -> None:
    spec = {"x": OBSERVATION, "action_mask": TensorSpec((4,), torch.int8)}
    mask = torch.tensor([0, 0, 1, 1], dtype=torch.int8).expand(200, 4)
    for net, state in (
        (QNetwork(spec, CHOICE), ()),
        (QRnnNetwork(spec, CHOICE, lstm_hidden_size=5), ((torch.zeros(200, 5), torch.zeros(200, 5)),)),
    ):
        values, _ = net({"x": torch.randn(200, 3), "action_mask": mask}, state)
        assert values.argmax(-1).unique().tolist() == [2, 3]
        assert (values[:, 2:].abs() < 100).all()


def test_other_actions_are_refused() -> None:
    for spec in (
        BoundedTensorSpec((2,), torch.float32, np.float32(-1), np.float32(1)),
        BoundedTensorSpec((2,), torch.int64, np.asarray(0), np.asarray(1)),
        {"a": CHOICE},
    ):
        with pytest.raises(ConfigError, match=r"QNetwork needs one discrete action .* Use CriticNetwork"):
            QNetwork(OBSERVATION, spec)


def test_dueling_is_value_plus_centred_advantage() -> None:
    net = QNetwork(OBSERVATION, CHOICE, fc_layer_params=(6,), dueling=True, head_fc_layer_params=(5,))
    x = torch.randn(7, 3)
    values, _ = net(x)
    features, _ = net._encoding(x)
    advantages, value = net._head._output(features), net._head._value(features)
    torch.testing.assert_close(values.mean(-1, keepdim=True), value)
    torch.testing.assert_close(values - value, advantages - advantages.mean(-1, keepdim=True))


@pytest.mark.parametrize("dueling", [False, True])
def test_vector_rewards_have_a_value_per_action_and_reward(dueling: bool) -> None:
    spec = {"x": OBSERVATION, "action_mask": TensorSpec((4,), torch.int8)}
    net = QNetwork(spec, CHOICE, TensorSpec((3,)), dueling=dueling)
    mask = torch.tensor([0, 1, 1, 1], dtype=torch.int8).expand(5, 2, 4)
    values, _ = net({"x": torch.randn(5, 2, 3), "action_mask": mask})
    assert values.shape == (5, 2, 4, 3)
    assert (values[..., 0, :] < -1e8).all()
    assert (values[..., 1:, :].abs() < 100).all()


def test_noisy_layers_are_those_after_the_encoding() -> None:
    for net in (
        QNetwork(OBSERVATION, CHOICE, fc_layer_params=(6,), head_fc_layer_params=(5,), dueling=True, noise_std=0.5),
        QRnnNetwork(OBSERVATION, CHOICE, lstm_hidden_size=6, head_fc_layer_params=(5,), dueling=True, noise_std=0.5),
    ):
        shapes = sorted(tuple(layer.weight.shape) for layer in noisy_layers(net))
        assert shapes == [(1, 5), (4, 5), (5, 6), (5, 6)]
    x, generator = torch.randn(2, 3), torch.Generator()
    net = QNetwork(OBSERVATION, CHOICE, noise_std=0.5)
    outputs = []
    for _ in range(2):
        for layer in noisy_layers(net):
            layer.reset_noise(generator)
        outputs.append(net(x)[0])
    assert not torch.equal(*outputs)
