"""DDPG solves environments whose optimum is known, and its losses are those on paper."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from alfish import nest
from alfish.algorithms.ddpg import DdpgAlgorithm
from alfish.algorithms.exploration_noise import GaussianNoise, OUNoise
from alfish.algorithms.td_loss import TDLoss
from alfish.errors import ConfigError
from alfish.networks.actor import ActorNetwork, ActorRnnNetwork
from alfish.networks.critic import CriticNetwork, CriticRnnNetwork
from alfish.optimizers.adam import Adam
from alfish.optimizers.sgd import SGD
from alfish.types import replace
from tests.algorithms.off_policy_runs import final_reward, random_batch, sequence, start_replay

CONTINUOUS = {"action_type": "continuous"}
ACTOR = partial(ActorNetwork, fc_layer_params=(16, 16))
CRITIC = partial(CriticNetwork, joint_fc_layer_params=(16, 16))
NETWORKS: dict[str, Any] = {"actor_network_ctor": ACTOR, "critic_network_ctor": CRITIC}
RECURRENT: dict[str, Any] = {
    "actor_network_ctor": partial(ActorRnnNetwork, lstm_hidden_size=8),
    "critic_network_ctor": partial(CriticRnnNetwork, lstm_hidden_size=8),
}


# A slower actor: before the critics know that observations matter, a fast one runs into a bound for good.
LEARNING: dict[str, Any] = {"num_environments": 16, "target_update_tau": 0.05, "rollout_random_action": 0.5}


def optimizers() -> dict[str, Any]:
    return {"actor_optimizer": Adam(lr=3e-3), "critic_optimizer": Adam(lr=1e-2)}


def start(env_kwargs: dict[str, Any] | None = None, **arguments: Any) -> Any:
    return start_replay(DdpgAlgorithm, env_kwargs={**CONTINUOUS, **(env_kwargs or {})}, **{**NETWORKS, **arguments})


@pytest.mark.parametrize(
    ("reward_dim", "critics", "prioritized"), [(1, 1, False), (1, 2, False), (3, 1, False), (3, 2, True)]
)
def test_it_solves_the_policy_unittest(reward_dim: int, critics: int, prioritized: bool) -> None:
    algorithm = start(
        {"reward_dim": reward_dim},
        num_critic_replicas=critics,
        options={"priority_replay": prioritized},
        **LEARNING,
        **optimizers(),
    )
    for _ in range(500):
        algorithm.train_iter()
    reward = final_reward(algorithm).flatten()
    assert reward.tolist() == pytest.approx([1.0] * reward_dim, abs=0.2)


def test_memory() -> None:
    algorithm = start(
        options={"mini_batch_length": 4, "use_rollout_state": True},
        **RECURRENT,
        **LEARNING,
        **optimizers(),
    )
    for _ in range(400):
        algorithm.train_iter()
    assert final_reward(algorithm).item() == pytest.approx(1.0, abs=0.2)


def test_losses_of_one_transition_by_hand() -> None:
    algorithm = start(num_critic_replicas=2, critic_loss_ctor=partial(TDLoss, gamma=0.9))
    before, after, action = torch.tensor([[0.0]]), torch.tensor([[1.0]]), torch.tensor([[0.3]])
    batch = sequence(torch.stack([before, after]), action.unsqueeze(0), [[0.0], [2.0]])
    loss = algorithm.compute_loss(batch)
    next_action, _ = algorithm.target_actor_network(after)
    next_value = algorithm.critics.target((after, next_action))[0].min()
    target = 2.0 + 0.9 * next_value
    critic = (algorithm.critics.online((before, action))[0] - target).square().sum()
    actor = -algorithm.critics.online((before, algorithm.actor_network(before)[0]))[0].min()
    assert loss.extra["critic"].item() == pytest.approx(critic.item(), rel=1e-5)
    assert loss.extra["actor"].item() == pytest.approx(actor.item(), rel=1e-5)
    assert loss.loss.item() == pytest.approx((critic + actor).item(), rel=1e-5)
    assert loss.priority.item() == pytest.approx(critic.sqrt().item(), rel=1e-5)
    ended = replace(batch, time_step=replace(batch.time_step, discount=torch.tensor([[1.0], [0.0]])))
    critic = (algorithm.critics.online((before, action))[0] - 2.0).square().sum()
    assert algorithm.compute_loss(ended).extra["critic"].item() == pytest.approx(critic.item(), rel=1e-5)


def test_each_loss_moves_its_own_networks() -> None:
    algorithm = start(num_critic_replicas=2)
    losses = algorithm.compute_loss(random_batch(algorithm)).extra
    losses["critic"].sum().backward()
    assert all(parameter.grad is None for parameter in algorithm.actor_network.parameters())
    assert all(parameter.grad is not None for parameter in algorithm.critics.online.parameters())
    algorithm.zero_grad()
    losses["actor"].sum().backward()
    assert all(parameter.grad is not None for parameter in algorithm.actor_network.parameters())
    assert all(parameter.grad is None for parameter in algorithm.critics.online.parameters())


def test_the_actor_climbs_the_weighted_rewards() -> None:
    algorithm = start({"reward_dim": 2}, reward_weights=(1.0, -3.0))
    batch = random_batch(algorithm)
    observation = batch.time_step.observation[:1]
    values = algorithm.critics.online((observation, algorithm.actor_network(observation)[0]))[0][0]
    expected = -(values[..., 0] - 3 * values[..., 1])
    torch.testing.assert_close(algorithm.compute_loss(batch).extra["actor"], expected)


def test_networks_see_only_the_rows_they_need() -> None:
    algorithm = start()
    rows: dict[str, list[float]] = {}

    def record(name: str) -> Any:
        def hook(module: Any, arguments: Any) -> None:
            inputs = arguments[0]
            observation = inputs[0] if isinstance(inputs, tuple) else inputs
            rows.setdefault(name, []).append(observation[..., 0].flatten().unique().tolist())

        return hook

    algorithm.actor_network._encoding.register_forward_pre_hook(record("actor"))
    algorithm.target_actor_network._encoding.register_forward_pre_hook(record("target actor"))
    algorithm.critics.target.copies[0].register_forward_pre_hook(record("target critics"))
    algorithm.critics.online.copies[0].register_forward_pre_hook(record("critics"))
    algorithm.compute_loss(sequence([[[0.0]], [[1.0]]], torch.tensor([[[0.5]]]), [[0.0], [1.0]]))
    assert rows == {"actor": [[0.0]], "target actor": [[1.0]], "target critics": [[1.0]], "critics": [[0.0], [0.0]]}


def test_targets_follow_softly_or_every_so_often() -> None:
    algorithm = start(target_update_tau=0.25, target_update_period=2)
    source, target = (next(net.parameters()) for net in (algorithm.actor_network, algorithm.target_actor_network))
    old = target.clone()
    with torch.no_grad():
        source.add_(4.0)
    algorithm.after_update()
    assert torch.equal(target, old)
    algorithm.after_update()
    torch.testing.assert_close(target, old + 1.0)


def test_noise_while_exploring_only() -> None:
    quiet = start(exploration_noise_ctor=partial(GaussianNoise, stddev=0.0))
    noisy = start(exploration_noise_ctor=partial(GaussianNoise, stddev=0.3))
    time_step = quiet.time_step
    action = quiet.predict_step(time_step, ()).output
    assert torch.equal(quiet.rollout_step(time_step, ()).output, action)
    explored = noisy.rollout_step(time_step, ()).output
    assert not torch.equal(explored, action)
    assert (explored >= 0).all()
    assert (explored <= 1).all()
    assert torch.equal(noisy.predict_step(time_step, ()).output, action)
    noisy.epsilon_greedy = 1.0
    assert not torch.equal(noisy.predict_step(time_step, ()).output, action)


def test_ou_noise_is_carried_from_step_to_step_and_ends_with_the_episode() -> None:
    algorithm = start({"episode_length": 4}, exploration_noise_ctor=partial(OUNoise, stddev=0.2))
    noise = algorithm.unroll(8).state.noise
    assert noise.shape == (8, 4, 1)
    assert (noise[0] == 0).all()
    assert (noise[1:5] != 0).all()
    assert (noise[5] == 0).all()  # the first step of the next episode
    assert algorithm.train_state_spec == ()
    algorithm.train_iter()


def test_random_actions_now_and_then() -> None:
    algorithm = start(
        num_environments=500, rollout_random_action=0.3, exploration_noise_ctor=partial(GaussianNoise, stddev=0.0)
    )
    time_step = algorithm.time_step
    changed = algorithm.rollout_step(time_step, ()).output != algorithm.predict_step(time_step, ()).output
    assert changed.float().mean().item() == pytest.approx(0.3, abs=0.06)


def test_optimizers_of_their_own() -> None:
    actor, critic = SGD(lr=0.1), Adam(lr=0.2)
    algorithm = start(actor_optimizer=actor, critic_optimizer=critic)
    algorithm.train_iter()
    assert set(actor.named_parameters) == {f"actor_network.{n}" for n, _ in algorithm.actor_network.named_parameters()}
    assert all(name.startswith("critics.online.") for name in critic.named_parameters)


def test_discrete_actions_are_refused() -> None:
    with pytest.raises(ConfigError, match="ActorNetwork is for continuous actions"):
        start({"action_type": "discrete"})


@pytest.mark.parametrize("length", [1, 3])
def test_stored_memory_is_that_of_the_networks_along_the_sequence(length: int) -> None:
    """Losses from stored states equal the tail of losses of the whole sequence, for unchanged networks."""
    algorithm = start(options={"use_rollout_state": True, "mini_batch_length": 4}, **RECURRENT)
    experience = algorithm.unroll(5)
    with torch.no_grad():
        full = algorithm._critic_loss(experience, nest.index(experience.state, 0))
    cut = replace(
        experience,
        time_step=nest.index(experience.time_step, slice(5 - length, None)),
        action=experience.action[5 - length :],
    )
    with torch.no_grad():
        tail = algorithm._critic_loss(cut, nest.index(experience.state, 5 - length))
    torch.testing.assert_close(tail.value, full.value[:, -length:])


def test_debug_summaries_tell_more() -> None:
    tags = {}
    for debug in (False, True):
        algorithm = start(options={"debug_summaries": debug})
        algorithm.summary.enabled = True
        algorithm.train_iter()
        tags[debug] = set(algorithm.summary._collected.histograms) | set(algorithm.summary.write())
    assert tags[True] - tags[False] == {
        "Debug/critic/value",
        "Debug/critic/target",
        "Debug/critic/disagreement",
        "Debug/priority",
        "Debug/action",
        "Debug/reward",
    }
