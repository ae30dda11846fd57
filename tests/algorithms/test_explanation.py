from __future__ import annotations

from functools import partial

import pytest
import torch

from alfish import nest, specs
from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.agent import Agent
from alfish.algorithms.algorithm import Algorithm
from alfish.algorithms.ddpg import DdpgAlgorithm
from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.explanation import Explanation, outline
from alfish.algorithms.sac import SacAlgorithm
from alfish.environments.create import create_environment
from alfish.networks.actor import ActorNetwork
from alfish.networks.actor_distribution import ActorDistributionNetwork, ActorDistributionRnnNetwork
from alfish.networks.critic import CriticNetwork, CriticRnnNetwork
from alfish.networks.distributions import Categorical, DiagonalNormal, Joint, SquashedNormal
from alfish.networks.projection import StableNormalProjectionNetwork
from alfish.networks.q import QNetwork
from alfish.networks.value import ValueNetwork, ValueRnnNetwork
from alfish.specs import BoundedTensorSpec

SMALL = {"fc_layer_params": (8,)}


def explained(cls, env_name, **arguments):
    """The algorithm, a first time step, its action and its explanation."""
    env = create_environment(env_name, num_parallel_environments=3)
    algorithm = cls(env.observation_spec, env.action_spec, env.reward_spec, **arguments)
    time_step = env.reset(seed=0)
    state = specs.zeros(algorithm.predict_state_spec, 3)
    with torch.no_grad():
        action = algorithm.predict_step(time_step, state).output
        return algorithm, time_step, action, algorithm.explain_step(time_step, state, action)


def test_an_algorithm_need_not_explain_itself() -> None:
    explanation = Algorithm().explain_step((), (), ())
    assert explanation == Explanation()
    assert nest.leaves(explanation) == []


def test_probabilities_of_a_discrete_policy() -> None:
    chances = torch.tensor([[0.7, 0.3], [0.1, 0.9]])
    torch.testing.assert_close(outline(Categorical(chances.log())), chances)


def test_the_ends_of_a_continuous_policy() -> None:
    mean, std = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 0.25]])
    expected = torch.tensor([[[0.5, -2.25], [1.5, -1.75]]])
    torch.testing.assert_close(outline(DiagonalNormal(mean, std)), expected)
    spec = BoundedTensorSpec((2,), minimum=-2.0, maximum=2.0)
    torch.testing.assert_close(outline(SquashedNormal.for_spec(spec)(mean, std)), 2 * expected.tanh())


def test_a_nested_policy_has_the_structure_of_the_action() -> None:
    policy = Joint({"a": Categorical(torch.zeros(1, 4)), "b": (DiagonalNormal(torch.zeros(1, 2), torch.ones(1, 2)),)})
    outlined = outline(policy)
    assert outlined["a"].shape == (1, 4)
    assert outlined["b"][0].shape == (1, 2, 2)
    assert outline(object()) == ()


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_actor_critic_tells_value_and_probabilities(wrapped: bool) -> None:
    make = partial(
        ActorCriticAlgorithm,
        actor_network_ctor=partial(ActorDistributionNetwork, **SMALL),
        value_network_ctor=partial(ValueNetwork, **SMALL),
    )
    cls = partial(Agent, rl_algorithm_cls=make) if wrapped else make
    algorithm, time_step, action, explanation = explained(cls, "CartPole-v1")
    inner = algorithm.rl_algorithm if wrapped else algorithm
    torch.testing.assert_close(explanation.value, inner.value_network(time_step.observation)[0].detach())
    assert explanation.policy.shape == (3, 2)
    assert torch.equal(explanation.policy.argmax(-1), action)


def test_a_value_whose_memory_is_not_kept_in_play_is_not_told() -> None:
    _, _, action, explanation = explained(
        ActorCriticAlgorithm,
        "CartPole-v1",
        actor_network_ctor=partial(ActorDistributionRnnNetwork, lstm_hidden_size=(8,)),
        value_network_ctor=partial(ValueRnnNetwork, lstm_hidden_size=(8,)),
    )
    assert explanation.value == ()
    assert torch.equal(explanation.policy.argmax(-1), action)


def test_dqn_tells_the_value_of_every_action() -> None:
    algorithm, time_step, action, explanation = explained(
        DqnAlgorithm, "CartPole-v1", q_network_ctor=partial(QNetwork, **SMALL)
    )
    torch.testing.assert_close(explanation.q_values, algorithm.q_network(time_step.observation)[0].detach())
    assert torch.equal(explanation.q_values.argmax(-1), action)


@pytest.mark.parametrize("recurrent", [False, True])
def test_sac_tells_the_value_of_its_action_and_how_sure_it_is(recurrent: bool) -> None:
    critic = partial(CriticRnnNetwork, lstm_hidden_size=(8,)) if recurrent else CriticNetwork
    algorithm, time_step, action, explanation = explained(
        SacAlgorithm,
        "Pendulum-v1",
        actor_network_ctor=partial(
            ActorDistributionNetwork, **SMALL, continuous_projection_net_ctor=StableNormalProjectionNetwork
        ),
        critic_network_ctor=critic,
    )
    assert explanation.policy.shape == (3, 2, 1)
    assert (explanation.policy[:, 0] < action).all()
    assert (action < explanation.policy[:, 1]).all()
    if recurrent:
        assert explanation.action_value == ()
    else:
        lowest = algorithm.critics.online((time_step.observation, action))[0].amin(0).detach()
        torch.testing.assert_close(explanation.action_value, lowest)


def test_sac_for_a_discrete_action_tells_all_values() -> None:
    _, _, action, explanation = explained(SacAlgorithm, "CartPole-v1", q_network_ctor=partial(QNetwork, **SMALL))
    assert explanation.q_values.shape == explanation.policy.shape == (3, 2)
    assert torch.equal(explanation.q_values.argmax(-1), action)
    assert torch.equal(explanation.policy.argmax(-1), action)


def test_ddpg_tells_the_value_of_its_action() -> None:
    algorithm, time_step, action, explanation = explained(
        DdpgAlgorithm,
        "Pendulum-v1",
        actor_network_ctor=partial(ActorNetwork, **SMALL),
        critic_network_ctor=CriticNetwork,
    )
    lowest = algorithm.critics.online((time_step.observation, action))[0].amin(0).detach()
    torch.testing.assert_close(explanation.action_value, lowest)
    assert explanation.policy == ()
