"""Implicit Q-learning finds the best of what was done."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from alfish.algorithms.bc import BcAlgorithm
from alfish.algorithms.iql import IqlAlgorithm
from alfish.algorithms.td_loss import RetraceTDLoss, TDLoss
from alfish.errors import ConfigError
from alfish.networks.actor_distribution import ActorDistributionNetwork, ActorDistributionRnnNetwork
from alfish.networks.critic import CriticNetwork, CriticRnnNetwork
from alfish.networks.value import ValueNetwork, ValueRnnNetwork
from alfish.optimizers.adam import Adam
from alfish.replay.tape import Tape
from alfish.types import StepType, replace
from tests.algorithms.off_policy_runs import final_reward, random_batch, sequence
from tests.algorithms.recorded import random_tape, start_offline

NETWORKS: dict[str, Any] = {
    "actor_network_ctor": partial(ActorDistributionNetwork, fc_layer_params=(16,)),
    "value_network_ctor": partial(ValueNetwork, fc_layer_params=(16,)),
    "critic_network_ctor": partial(CriticNetwork, joint_fc_layer_params=(16,)),
}
MEMORY: dict[str, Any] = {
    "actor_network_ctor": partial(ActorDistributionRnnNetwork, lstm_hidden_size=4),
    "value_network_ctor": partial(ValueRnnNetwork, lstm_hidden_size=4),
    "critic_network_ctor": partial(CriticRnnNetwork, lstm_hidden_size=4),
}
OFFLINE = {"rl_train_after_update_steps": 10**9}


def start(tape: Any = None, **arguments: Any) -> Any:
    arguments = {"options": OFFLINE, **NETWORKS, **arguments}
    return start_offline(IqlAlgorithm, tape or random_tape(), **arguments)


def constant(algorithm: Any, value: float, critic: float) -> None:
    """V is `value` and every Q is `critic`, everywhere."""
    with torch.no_grad():
        for network, level in ((algorithm.value_network, value), (algorithm.critics, critic)):
            for name, parameter in network.named_parameters():
                parameter.fill_(level if name.endswith("_output.layer.bias") else 0.0)


def test_the_parts_of_the_loss_are_those_of_the_paper() -> None:
    algorithm = start(expectile=0.9, inverse_temperature=2.0, critic_loss_ctor=partial(TDLoss, gamma=0.5))
    constant(algorithm, value=1.0, critic=3.0)
    batch = sequence(torch.zeros(2, 2, 1), torch.tensor([[0, 1]]), [[0.0, 0.0], [4.0, 4.0]], [[1.0, 1.0], [1.0, 0.0]])
    loss = algorithm.compute_loss(batch)
    torch.testing.assert_close(loss.extra["value"], torch.full((1, 2), 0.9 * 2.0**2))
    # Targets: r + gamma V, which is 4 + 0.5, and 4 at a real end. Two critics.
    torch.testing.assert_close(loss.extra["critic"], torch.tensor([[2 * 1.5**2, 2 * 1.0**2]]))
    log_prob = algorithm.actor_network(batch.time_step.observation[:1])[0].log_prob(batch.action)
    torch.testing.assert_close(loss.extra["actor"], -torch.full((1, 2), 4.0).exp() * log_prob)
    torch.testing.assert_close(loss.loss, sum(loss.extra.values()))
    constant(algorithm, value=4.0, critic=3.0)
    torch.testing.assert_close(algorithm.compute_loss(batch).extra["value"], torch.full((1, 2), 0.1))


def test_a_time_limit_bootstraps_and_a_real_end_does_not() -> None:
    algorithm = start(critic_loss_ctor=partial(TDLoss, gamma=0.5))
    constant(algorithm, value=2.0, critic=0.0)
    last = torch.tensor([[StepType.MID] * 2, [StepType.LAST] * 2])
    batch = sequence(torch.zeros(2, 2, 1), torch.zeros(1, 2).long(), torch.ones(2, 2), [[1.0, 1.0], [1.0, 0.0]], last)
    # At the time limit 1 + 0.5 * 2, at the end 1; two critics.
    torch.testing.assert_close(algorithm.compute_loss(batch).extra["critic"], torch.tensor([[8.0, 2.0]]))


def test_each_network_learns_from_its_own_loss_only() -> None:
    algorithm = start()
    batch = random_batch(algorithm)
    for name, parts in {"value": "value_network", "critic": "critics.online", "actor": "actor_network"}.items():
        algorithm.zero_grad()
        algorithm.compute_loss(batch).extra[name].sum().backward()
        moved = {path for path, parameter in algorithm.named_parameters() if parameter.grad is not None}
        assert moved
        assert all(path.startswith(parts) for path in moved)


def test_the_weight_of_an_action_is_limited() -> None:
    algorithm = start(max_weight=5.0)
    constant(algorithm, value=0.0, critic=50.0)
    batch = random_batch(algorithm)
    log_prob = algorithm.actor_network(batch.time_step.observation[:1])[0].log_prob(batch.action)
    torch.testing.assert_close(algorithm.compute_loss(batch).extra["actor"], -5.0 * log_prob)


@pytest.mark.parametrize(("action_type", "share_of_good"), [("discrete", 0.3), ("continuous", 0.0)])
def test_on_mediocre_data_it_beats_cloning(action_type: str, share_of_good: float) -> None:
    kwargs = {"action_type": action_type, "episode_length": 1}
    tape = mediocre(random_tape(num_steps=400, **kwargs), share_of_good)
    clone = start_offline(BcAlgorithm, tape, env_kwargs=kwargs, actor_network_ctor=NETWORKS["actor_network_ctor"])
    algorithm = start(tape, env_kwargs=kwargs, inverse_temperature=10.0, target_update_tau=0.1)
    for _ in range(250):
        clone.train_iter()
        algorithm.train_iter()
    assert algorithm.progress.env_steps == 0
    assert final_reward(clone) < 0.6
    assert final_reward(algorithm) > 0.85


def mediocre(tape: Tape, share_of_good: float) -> Tape:
    """The best action is the observation. Continuous ones stay random; of discrete ones few are good."""
    if tape.action.dtype != torch.int64:
        return tape
    best = tape.observation[:, 0].long()
    is_good = torch.rand(len(tape), generator=torch.Generator().manual_seed(0)) < share_of_good
    earned = torch.cat((torch.zeros(1), is_good[:-1].float()))
    reward = earned.masked_fill(tape.step_type == StepType.FIRST, 0.0)
    return replace(tape, action=torch.where(is_good, best, 1 - best), reward=reward)


def test_mixed_actions_and_vector_rewards() -> None:
    mixed = "alfish/MixedPolicyUnittest-v0"
    algorithm = start(random_tape(mixed), env_name=mixed)
    algorithm.train_iter()
    kwargs = {"reward_dim": 2}
    algorithm = start(random_tape(**kwargs), env_kwargs=kwargs, reward_weights=(1.0, -0.5))
    batch = random_batch(algorithm)
    loss = algorithm.compute_loss(batch)
    assert loss.loss.shape == (1, 6)
    assert loss.priority.shape == (6,)
    observation = batch.time_step.observation[:1]
    value = algorithm.value_network(observation)[0].detach()
    critic = algorithm.critics.lowest(algorithm.critics.target((observation, batch.action))[0])
    advantage = critic - value
    weight = torch.where(advantage @ torch.tensor([1.0, -0.5]) < 0, 0.3, 0.7)
    torch.testing.assert_close(loss.extra["value"].detach(), (weight.unsqueeze(-1) * advantage**2).sum(-1))


def test_networks_with_memory_learn_from_sequences() -> None:
    algorithm = start(**MEMORY, options={**OFFLINE, "mini_batch_length": 5})
    before = torch.nn.utils.parameters_to_vector(algorithm.parameters()).clone()
    for _ in range(2):
        algorithm.train_iter()
    assert (torch.nn.utils.parameters_to_vector(algorithm.parameters()) != before).any()
    state = algorithm.predict_step(algorithm.time_step, algorithm._unroller._actor.state).state
    assert state != ()


def test_priorities_are_those_of_the_critics() -> None:
    algorithm = start(options={**OFFLINE, "priority_replay": True})
    batch = random_batch(algorithm)
    loss = algorithm.compute_loss(batch)
    counts = (batch.time_step.step_type[:-1] != StepType.LAST).float()
    torch.testing.assert_close(loss.priority, (loss.extra["critic"].detach() * counts).sum(0).sqrt())
    algorithm.train_iter()


def test_targets_follow_the_critics() -> None:
    algorithm = start(target_update_tau=1.0)
    algorithm.train_iter()
    online, target = algorithm.critics.online.state_dict(), algorithm.critics.target.state_dict()
    assert all(torch.equal(target[name], value) for name, value in online.items())


def test_optimizers_of_its_own() -> None:
    algorithm = start(actor_optimizer=Adam(lr=0.0), critic_optimizer=Adam(lr=0.1))
    actor = torch.nn.utils.parameters_to_vector(algorithm.actor_network.parameters()).clone()
    value = torch.nn.utils.parameters_to_vector(algorithm.value_network.parameters()).clone()
    algorithm.train_iter()
    assert torch.equal(torch.nn.utils.parameters_to_vector(algorithm.actor_network.parameters()), actor)
    assert not torch.equal(torch.nn.utils.parameters_to_vector(algorithm.value_network.parameters()), value)


def test_a_loss_that_needs_probabilities_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"IqlAlgorithm.critic_loss_ctor = @RetraceTDLoss"):
        start(critic_loss_ctor=RetraceTDLoss)


def test_it_explains_itself() -> None:
    algorithm = start()
    time_step = algorithm.time_step
    action = algorithm.predict_step(time_step, ()).output
    explanation = algorithm.explain_step(time_step, (), action)
    assert explanation.value.shape == explanation.action_value.shape == (4,)
    assert explanation.policy.shape == (4, 2)
