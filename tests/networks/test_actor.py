from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish.errors import ConfigError
from alfish.networks.actor import ActorNetwork, ActorRnnNetwork
from alfish.networks.initializers import orthogonal
from alfish.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((3,))


def box(low: object, high: object, shape: tuple[int, ...] = (2,)) -> BoundedTensorSpec:
    return BoundedTensorSpec(shape, torch.float32, np.asarray(low, np.float32), np.asarray(high, np.float32))


def test_actions_fill_their_bounds_and_start_in_the_middle() -> None:
    spec = box([-1, 0], [3, 10])
    central, _ = ActorNetwork(OBSERVATION, spec)(torch.randn(50, 3))
    torch.testing.assert_close(central, torch.tensor([1.0, 5.0]).expand(50, 2), atol=0.5, rtol=0)
    linear = ActorNetwork(OBSERVATION, spec, fc_layer_params=(), last_kernel_initializer=orthogonal)
    far, state = linear(1e4 * torch.randn(500, 3))
    torch.testing.assert_close(far.amin(0), torch.tensor([-1.0, 0.0]))
    torch.testing.assert_close(far.amax(0), torch.tensor([3.0, 10.0]))
    assert state == ()


def test_nested_actions_of_any_rank() -> None:
    spec = {"a": box(-1, 1, ()), "b": (box(-1, 1, (2, 3)),)}
    action, _ = ActorNetwork(OBSERVATION, spec, fc_layer_params=(4,))(torch.randn(7, 5, 3))
    assert action["a"].shape == (7, 5)
    assert action["b"][0].shape == (7, 5, 2, 3)


def test_gradient_reaches_every_layer() -> None:
    for net, state in (
        (ActorNetwork(OBSERVATION, box(-1, 1)), ()),
        (
            ActorRnnNetwork(
                OBSERVATION, box(-1, 1), fc_layer_params=(6,), lstm_hidden_size=5, actor_fc_layer_params=(4,)
            ),
            ((torch.ones(9, 5), torch.ones(9, 5)),),
        ),
    ):
        net(torch.randn(9, 3), state)[0].sum().backward()
        assert all(parameter.grad.abs().sum() > 0 for parameter in net.parameters())


def test_discrete_actions_are_refused() -> None:
    spec = {"gear": BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(3))}
    with pytest.raises(ConfigError, match="ActorNetwork is for continuous actions, but the action 'gear'"):
        ActorNetwork(OBSERVATION, spec)
