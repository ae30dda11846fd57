"""SARSA with both kinds of actor solves a known environment; its targets use the stored next action."""

from __future__ import annotations

from functools import partial
from math import log
from typing import Any

import pytest
import torch

from alfish import nest
from alfish.algorithms.exploration_noise import GaussianNoise
from alfish.algorithms.sarsa import SarsaAlgorithm
from alfish.algorithms.td_loss import RetraceTDLoss, TDLoss
from alfish.errors import ConfigError
from alfish.networks.actor import ActorNetwork, ActorRnnNetwork
from alfish.networks.actor_distribution import ActorDistributionNetwork, ActorDistributionRnnNetwork
from alfish.networks.critic import CriticNetwork, CriticRnnNetwork
from alfish.networks.projection import StableNormalProjectionNetwork
from alfish.optimizers.adam import Adam
from alfish.types import replace
from tests.algorithms.off_policy_runs import final_reward, random_batch, sequence, start_replay

CRITIC = partial(CriticNetwork, joint_fc_layer_params=(16, 16))
RNN_CRITIC = partial(CriticRnnNetwork, lstm_hidden_size=8)
SQUASHED: dict[str, Any] = {"continuous_projection_net_ctor": StableNormalProjectionNetwork}
NETWORKS: dict[str, dict[str, Any]] = {
    "ddpg": {
        "actor_network_ctor": partial(ActorNetwork, fc_layer_params=(16, 16)),
        "critic_network_ctor": CRITIC,
    },
    "sac": {
        "actor_network_ctor": partial(ActorDistributionNetwork, fc_layer_params=(16, 16), **SQUASHED),
        "critic_network_ctor": CRITIC,
    },
    "ddpg_rnn": {
        "actor_network_ctor": partial(ActorRnnNetwork, lstm_hidden_size=8),
        "critic_network_ctor": RNN_CRITIC,
    },
    "sac_rnn": {
        "actor_network_ctor": partial(ActorDistributionRnnNetwork, lstm_hidden_size=8, **SQUASHED),
        "critic_network_ctor": RNN_CRITIC,
    },
}


def start(kind: str, reward_dim: int = 1, **arguments: Any) -> Any:
    env_kwargs = {"action_type": "continuous", "reward_dim": reward_dim}
    return start_replay(SarsaAlgorithm, env_kwargs=env_kwargs, **{**NETWORKS[kind], **arguments})


@pytest.mark.parametrize(("kind", "prioritized"), [*((kind, False) for kind in NETWORKS), ("ddpg", True)])
def test_it_solves_the_policy_unittest(kind: str, prioritized: bool) -> None:
    options: dict[str, Any] = {"priority_replay": prioritized}
    if kind.endswith("rnn"):
        options |= {"mini_batch_length": 4, "use_rollout_state": True, "mini_batch_size": 32}
    algorithm = start(
        kind,
        num_environments=16,
        target_update_tau=0.05,
        initial_log_alpha=-3.0,
        exploration_noise_ctor=partial(GaussianNoise, stddev=1.0),
        actor_optimizer=Adam(lr=3e-3),
        critic_optimizer=Adam(lr=1e-2),
        **({"alpha_optimizer": Adam(lr=1e-2)} if kind.startswith("sac") else {}),
        options=options,
    )
    for _ in range(400):
        algorithm.train_iter()
    assert final_reward(algorithm).item() == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("kind", ["ddpg", "sac"])
def test_the_target_is_the_value_of_the_stored_next_action(kind: str) -> None:
    algorithm = start(kind, critic_loss_ctor=partial(TDLoss, gamma=0.9), initial_log_alpha=log(0.3))
    observation = torch.tensor([[[0.0]], [[1.0]], [[0.5]]])
    action = torch.tensor([[[0.3]], [[0.8]]])
    drawn = algorithm.generator.get_state()
    loss = algorithm.compute_loss(sequence(observation, action, [[0.0], [2.0], [5.0]]))
    algorithm.generator.set_state(drawn)
    next_value = algorithm.critics.target((observation[1], action[1]))[0].min()
    if kind == "sac":
        policy = algorithm.actor_network(observation[1:2])[0]
        next_value = next_value - 0.3 * policy.rsample_and_log_prob(algorithm.generator)[1].squeeze()
    target = 2.0 + 0.9 * next_value
    critic = (algorithm.critics.online((observation[0], action[0]))[0] - target).square().sum().item()
    # The last action has no successor: its loss is 0, and that of the other counts for both in the mean.
    assert loss.extra["critic"].flatten().tolist() == pytest.approx([2 * critic, 0.0], rel=1e-4)
    assert loss.priority.item() == pytest.approx(critic**0.5, rel=1e-4)


def test_a_time_limit_bootstraps_from_its_stored_action_and_an_end_does_not() -> None:
    algorithm = start("ddpg", critic_loss_ctor=partial(TDLoss, gamma=0.9))
    observation = torch.tensor([[[0.0], [0.0]], [[1.0], [1.0]], [[0.5], [0.5]]])
    action = torch.full((2, 2, 1), 0.3)
    batch = sequence(
        observation,
        action,
        torch.tensor([[0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]),
        torch.tensor([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]),
        torch.tensor([[1, 1], [2, 2], [0, 0]]),
    )
    priority = algorithm.compute_loss(batch).priority
    value = algorithm.critics.online((observation[0], action[0]))[0][:, 0]
    next_value = algorithm.critics.target((observation[1], action[1]))[0][:, 0].min()
    expected = [(value - target).square().sum().sqrt().item() for target in (2.0 + 0.9 * next_value, torch.tensor(2.0))]
    assert priority.tolist() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("reward_dim", [1, 3])
def test_each_loss_moves_its_own_parameters(kind: str, reward_dim: int) -> None:
    algorithm = start(kind, reward_dim)
    owners = {
        "critic": algorithm.critics.online,
        "actor": algorithm.actor_network,
        **({"alpha": algorithm.temperature} if kind.startswith("sac") else {}),
    }
    losses = algorithm.compute_loss(random_batch(algorithm, length=4)).extra
    assert set(losses) == set(owners)
    for name, loss in losses.items():
        assert loss.shape == (4, 6)
        algorithm.zero_grad()
        loss.sum().backward(retain_graph=True)
        moved = {key for key, value in algorithm.named_parameters() if value.grad is not None}
        own = {id(parameter) for parameter in owners[name].parameters()}
        assert moved == {key for key, value in algorithm.named_parameters() if id(value) in own}


def test_sequences_are_one_longer() -> None:
    assert start("ddpg").sequence_length == 3
    assert start("ddpg", critic_loss_ctor=partial(TDLoss, num_steps=4)).sequence_length == 6
    with pytest.raises(ConfigError, match=r"mini_batch_length = 2.*3 time steps at least"):
        start("ddpg", options={"mini_batch_length": 2})


def test_discrete_actions_are_refused() -> None:
    with pytest.raises(ConfigError, match="SarsaAlgorithm is for continuous actions"):
        start_replay(SarsaAlgorithm, env_kwargs={"action_type": "discrete"}, **NETWORKS["ddpg"])


def test_noise_or_samples_while_exploring() -> None:
    for kind in ("ddpg", "sac"):
        algorithm = start(kind)
        time_step = algorithm.time_step
        state = nest.map(lambda spec: spec.zeros(4), algorithm.rollout_state_spec)
        greedy = algorithm.predict_step(time_step, ()).output
        explored = algorithm.rollout_step(time_step, state).output
        assert not torch.equal(explored, greedy)
        assert (explored >= 0).all()
        assert (explored <= 1).all()
        assert torch.equal(algorithm.predict_step(time_step, ()).output, greedy)


@pytest.mark.parametrize("kind", ["ddpg", "sac"])
def test_epsilon_greedy_explores_in_evaluation(kind: str) -> None:
    algorithm = start(kind, num_environments=50)
    time_step = algorithm.time_step
    greedy = algorithm.predict_step(time_step, ()).output
    algorithm.epsilon_greedy = 0.5
    explored = (algorithm.predict_step(time_step, ()).output != greedy).float().mean().item()
    assert 0.2 < explored < 0.8


def test_options_that_would_be_ignored_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"SarsaAlgorithm\.alpha_optimizer, SarsaAlgorithm\.target_entropy: has no use"
    ):
        start("ddpg", alpha_optimizer=Adam(lr=0.1), optimizer=Adam(lr=0.1), target_entropy=-1.0)
    with pytest.raises(ConfigError, match="RetraceTDLoss"):
        start("sac", critic_loss_ctor=RetraceTDLoss)


@pytest.mark.parametrize("kind", ["ddpg_rnn", "sac_rnn"])
def test_stored_memory_is_that_of_the_networks_along_the_sequence(kind: str) -> None:
    algorithm = start(kind, options={"use_rollout_state": True, "mini_batch_length": 4})
    experience = algorithm.unroll(6)
    with torch.no_grad():
        full = algorithm._critic_loss(experience.time_step, _padded(experience.action), _state(experience, 0))
        later = replace(experience, time_step=nest.index(experience.time_step, slice(3, None)))
        tail = algorithm._critic_loss(later.time_step, _padded(experience.action[3:]), _state(experience, 3))
    torch.testing.assert_close(tail.value, full.value[:, 3:])


def _padded(action: torch.Tensor) -> torch.Tensor:
    """With a last action, of which only the value for a target depends."""
    return torch.cat([action, action[-1:]])


def _state(experience: Any, row: int) -> Any:
    return nest.index(experience.state, row)
