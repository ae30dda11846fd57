"""A2C: one update per unroll, the same whichever way the gradient is computed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from alfish import nest
from alfish.algorithms.actor_critic import epsilon_greedy_action
from alfish.algorithms.actor_critic_loss import ActorCriticLoss
from alfish.networks.distributions import Categorical
from alfish.optimizers.adam import Adam
from alfish.types import Experience
from tests.algorithms.runs import start_run


def parameters(algorithm: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in algorithm.parameters()])


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("iterations", [1, 3])
def test_unroll_with_grad_gives_the_same_parameters(recurrent: bool, iterations: int) -> None:
    found = []
    for with_grad in (False, True):
        algorithm = start_run(
            unroll_length=10, unroll_with_grad=with_grad, recurrent=recurrent, optimizer=Adam(lr=0.01)
        )
        before = parameters(algorithm)
        for _ in range(iterations):
            algorithm.train_iter()
        found.append(parameters(algorithm))
    assert not torch.equal(found[0], before)
    assert torch.allclose(found[0], found[1], atol=1e-5)
    assert algorithm.progress.updates == iterations


def test_training_stepwise_gives_the_same_parameters_for_networks_with_memory() -> None:
    found = []
    for stepwise in (False, True):
        algorithm = start_run(unroll_length=12, recurrent=True)
        algorithm.stepwise_training = stepwise
        for _ in range(3):
            algorithm.train_iter()
        found.append(parameters(algorithm))
    assert torch.allclose(found[0], found[1], atol=1e-5)


def test_values_judged_afterwards_equal_those_while_acting() -> None:
    algorithm = start_run(unroll_length=10, unroll_with_grad=True)
    experience = algorithm.unroll(10)
    while_acting = algorithm._judge(experience)
    algorithm._values_while_acting = False
    assert torch.allclose(while_acting, algorithm._judge(experience), atol=1e-6)
    assert while_acting.shape == (11, 4)


def test_memory_is_carried_from_one_unroll_to_the_next_and_forgotten_at_first() -> None:
    algorithm = start_run(
        env_name="alfish/RNNPolicyUnittest-v0", env_kwargs={"gap": 3}, unroll_length=2, recurrent=True
    )
    first, second = algorithm.unroll(2), algorithm.unroll(2)
    assert torch.equal(nest.leaves(second.state)[0][0], nest.leaves(first.final_state)[0])
    assert nest.leaves(second.state)[0][0].abs().sum() > 0
    experience = algorithm.unroll(12)
    at_first = experience.time_step.is_first()[:-1]
    assert at_first.any()
    assert all((leaf[at_first] == 0).all() for leaf in nest.leaves(experience.state))


def test_the_graph_of_an_unroll_does_not_reach_into_the_one_before() -> None:
    algorithm = start_run(unroll_length=4, unroll_with_grad=True, recurrent=True)
    algorithm.train_iter()
    algorithm.train_iter()  # would fail: "backward through the graph a second time"
    assert algorithm.progress.updates == 2


def test_epsilon_greedy_samples_for_that_share_of_environments() -> None:
    distribution = Categorical(torch.log(torch.tensor([[0.6, 0.4]])).expand(20000, 2))
    generator = torch.Generator().manual_seed(0)
    assert (epsilon_greedy_action(distribution, 0.0, generator) == 0).all()
    half = epsilon_greedy_action(distribution, 0.5, generator).float().mean().item()
    assert half == pytest.approx(0.5 * 0.4, abs=0.01)
    assert epsilon_greedy_action(distribution, 1.0, generator).float().mean().item() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("reward_dim", [1, 3])
def test_finds_the_best_of_three_arms(reward_dim: int) -> None:
    algorithm = start_run(
        env_name="alfish/ThreeArmedBandit-v0",
        env_kwargs={"reward_dim": reward_dim},
        num_environments=3,
        unroll_length=5,
        optimizer=Adam(lr=0.02),
    )
    for _ in range(100):
        algorithm.train_iter()
    distribution, _ = algorithm.actor_network(algorithm.time_step.observation)
    log_probs = torch.stack([distribution.log_prob(torch.full((3,), arm)) for arm in range(3)])
    assert (log_probs[1] > log_probs[0]).all()
    assert (log_probs[1] > log_probs[2]).all()
    assert algorithm.progress.iterations == 100


@pytest.mark.parametrize(("truncates", "expected"), [(False, 1.0), (True, 2.0)])
def test_learns_that_time_limits_bootstrap_and_real_ends_do_not(truncates: bool, expected: float) -> None:
    """Episodes of one step with reward 1; with a time limit the value is that of going on for ever."""
    algorithm = start_run(
        env_name="alfish/ConstantRewardProbe-v0",
        env_kwargs={"episode_length": 1, "truncates": truncates},
        unroll_length=8,
        num_environments=8,
        optimizer=Adam(lr=0.02),
        loss_class=partial(ActorCriticLoss, gamma=0.5),
    )
    for _ in range(400):
        algorithm.train_iter()
    experience: Experience = algorithm.unroll(8)
    values = algorithm._judge(experience)[experience.time_step.is_first()]
    assert values.mean().item() == pytest.approx(expected, rel=0.02)


def test_mixed_actions_are_learned() -> None:
    algorithm = start_run(
        env_name="alfish/MixedPolicyUnittest-v0",
        num_environments=32,
        unroll_length=8,
        optimizer=Adam(lr=0.01),
        loss_class=partial(ActorCriticLoss, gamma=0.0, normalize_advantages=True),
    )
    for _ in range(200):
        algorithm.train_iter()
    rewards = algorithm.unroll(10).time_step
    assert rewards.reward[1:][~rewards.is_first()[1:]].mean().item() > 0.9
