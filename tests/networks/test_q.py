from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish.errors import ConfigError
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
