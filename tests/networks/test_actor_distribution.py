from __future__ import annotations

import gin
import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish import nest, specs
from alfish.networks.actor_distribution import ActorDistributionNetwork, ActorDistributionRnnNetwork
from alfish.networks.distributions import Categorical, DiagonalNormal, Joint, SquashedNormal
from alfish.networks.projection import StableNormalProjectionNetwork
from alfish.networks.recurrent import GRUEncodingNetwork
from alfish.specs import TensorSpec

OBSERVATION = TensorSpec((3,))
SPACES = {
    "discrete": gym.spaces.Discrete(4, start=2),
    "multi_discrete": gym.spaces.MultiDiscrete([3, 2]),
    "multi_binary": gym.spaces.MultiBinary([2, 2]),
    "box": gym.spaces.Box(-2, 2, (3,), np.float32),
}
SPACES["nested"] = gym.spaces.Dict(a=SPACES["discrete"], b=gym.spaces.Tuple([SPACES["box"], SPACES["multi_binary"]]))


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("leading", [(5,), (7, 5)])
def test_samples_belong_to_the_action_space(name: str, leading: tuple[int, ...]) -> None:
    spec = specs.from_space(SPACES[name])
    net = ActorDistributionNetwork(
        OBSERVATION, spec, fc_layer_params=(8,), continuous_projection_net_ctor=StableNormalProjectionNetwork
    )
    distribution, state = net(torch.randn(*leading, 3))
    action = distribution.sample()
    assert state == net.state_spec == ()
    assert nest.same_structure(action, spec)
    assert distribution.log_prob(action).shape == distribution.entropy().shape == leading
    one = nest.map(lambda leaf: leaf[(0,) * len(leading)].numpy(), action)
    assert SPACES[name].contains(one)


def test_the_head_follows_the_action() -> None:
    def kind(name: str) -> type:
        return type(ActorDistributionNetwork(OBSERVATION, specs.from_space(SPACES[name]))(torch.randn(2, 3))[0])

    assert issubclass(kind("discrete"), Categorical)
    assert issubclass(kind("box"), DiagonalNormal)
    assert kind("nested") is Joint


def test_the_mask_of_an_observation_is_honoured_and_not_encoded() -> None:
    spec = {"x": OBSERVATION, "action_mask": TensorSpec((4,), torch.int8)}
    net = ActorDistributionNetwork(spec, specs.from_space(SPACES["discrete"]), fc_layer_params=(8,))
    mask = torch.tensor([0, 1, 0, 1], dtype=torch.int8).expand(300, 4)
    x = torch.randn(300, 3)
    assert net({"x": x, "action_mask": mask})[0].sample().unique().tolist() == [3, 5]
    open_ = net({"x": x, "action_mask": torch.ones(300, 4)})[0].logits
    torch.testing.assert_close(net({"x": x, "action_mask": mask})[0].logits[:, [1, 3]], open_[:, [1, 3]])
    assert net._encoding._dense.layers[0].in_features == 3


def test_masks_of_nested_actions_and_sequences() -> None:
    spec = {"x": OBSERVATION, "action_mask": {"a": TensorSpec((4,))}}
    net = ActorDistributionRnnNetwork(spec, {"a": specs.from_space(SPACES["discrete"])}, lstm_hidden_size=5)
    inputs = {"x": torch.randn(6, 2, 3), "action_mask": {"a": torch.tensor([1, 0, 0, 0]).expand(6, 2, 4)}}
    distribution, _ = net.unroll(inputs, specs.zeros(net.state_spec, 2))
    assert (distribution.sample()["a"] == 2).all()


def test_a_policy_learns_to_prefer_what_is_rewarded() -> None:
    torch.manual_seed(0)
    net = ActorDistributionNetwork(OBSERVATION, specs.from_space(SPACES["nested"]), fc_layer_params=(16,))
    x = torch.randn(32, 3)
    good = {"a": torch.full((32,), 4), "b": (torch.full((32, 3), 1.0), torch.ones(32, 2, 2, dtype=torch.int64))}
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    before = net(x)[0].log_prob(good).mean()
    for _ in range(50):
        optimizer.zero_grad()
        (-net(x)[0].log_prob(good).mean()).backward()
        optimizer.step()
    assert net(x)[0].log_prob(good).mean() > before + 2
    assert (net(x)[0].mode()["a"] == 4).all()


def test_gin_chooses_layers_heads_and_cells() -> None:
    gin.parse_config(
        """
        ActorDistributionNetwork.fc_layer_params = (8,)
        ActorDistributionNetwork.activation = @tanh
        ActorDistributionNetwork.continuous_projection_net_ctor = @StableNormalProjectionNetwork
        StableNormalProjectionNetwork.init_std = 0.25
        ActorDistributionRnnNetwork.encoding_network_ctor = @GRUEncodingNetwork
        ActorDistributionRnnNetwork.lstm_hidden_size = (6,)
        """
    )
    box = specs.from_space(SPACES["box"])
    net = ActorDistributionNetwork(OBSERVATION, box)
    distribution, _ = net(torch.randn(2, 3))
    assert [layer.out_features for layer in net._encoding._dense.layers] == [8]
    assert isinstance(distribution, SquashedNormal)
    torch.testing.assert_close(distribution.std, torch.full((2, 3), 0.25), atol=0.02, rtol=0)
    recurrent = ActorDistributionRnnNetwork(OBSERVATION, box)
    assert isinstance(recurrent._encoding, GRUEncodingNetwork)
    assert recurrent.state_spec == (TensorSpec((6,)),)


def test_the_seed_decides_the_policy() -> None:
    def logits(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return ActorDistributionNetwork(OBSERVATION, specs.from_space(SPACES["discrete"]))(torch.ones(1, 3))[0].logits

    assert torch.equal(logits(3), logits(3))
    assert not torch.equal(logits(3), logits(4))


def test_a_whole_loss_compiles_without_a_graph_break() -> None:
    net = ActorDistributionNetwork(OBSERVATION, specs.from_space(SPACES["nested"]), fc_layer_params=(8,))
    x = torch.randn(4, 3)
    action = net(x)[0].sample()

    def loss(x: torch.Tensor) -> torch.Tensor:
        distribution, _ = net(x)
        return distribution.log_prob(action).mean() + distribution.entropy().mean()

    torch.testing.assert_close(torch.compile(loss, backend="eager", fullgraph=True)(x), loss(x))
