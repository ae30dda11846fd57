"""An agent behaves as the algorithm inside it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.agent import Agent
from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.create import create_environment
from alfish.networks.actor_distribution import ActorDistributionNetwork, ActorDistributionRnnNetwork
from alfish.networks.value import ValueNetwork, ValueRnnNetwork
from alfish.optimizers.adam import Adam
from alfish.seeding import Seeds
from alfish.types import Experience
from tests.algorithms.off_policy_runs import start_replay
from tests.algorithms.runs import started


def parameters_after(wrapped: bool, cls: type[ActorCriticAlgorithm], recurrent: bool) -> torch.Tensor:
    config = TrainerConfig(algorithm_ctor=Agent, unroll_length=8)
    env = create_environment(num_parallel_environments=2)
    layers = {"lstm_hidden_size": 8} if recurrent else {"fc_layer_params": (8,)}
    actor, value = ActorDistributionNetwork, ValueNetwork
    if recurrent:
        actor, value = ActorDistributionRnnNetwork, ValueRnnNetwork  # type: ignore[assignment]
    ctor = partial(cls, actor_network_ctor=partial(actor, **layers), value_network_ctor=partial(value, **layers))
    specs = (env.observation_spec, env.action_spec, env.reward_spec)
    with Seeds(0).fork_torch("init"):
        if wrapped:
            algorithm = Agent(*specs, config=config, rl_algorithm_cls=ctor, optimizer=Adam(lr=0.01))
        else:
            algorithm = ctor(*specs, config=config, optimizer=Adam(lr=0.01))  # type: ignore[assignment]
    started(algorithm, env, config)
    if wrapped:  # the agent itself takes the first stream, its algorithm the second
        algorithm.rl_algorithm.generator = Seeds(0).torch("action", 0)
    for _ in range(3):
        algorithm.train_iter()
    assert algorithm.progress.updates == (3 if cls is ActorCriticAlgorithm else 12)
    return torch.cat([parameter.detach().flatten() for parameter in algorithm.parameters()])


@pytest.mark.parametrize("cls", [PPOAlgorithm, ActorCriticAlgorithm])
@pytest.mark.parametrize("recurrent", [False, True])
def test_trains_like_the_algorithm_alone(cls: type[ActorCriticAlgorithm], recurrent: bool) -> None:
    assert torch.equal(parameters_after(True, cls, recurrent), parameters_after(False, cls, recurrent))


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_was_unrolled_is_stacked_for_those_who_look_at_it(wrapped: bool) -> None:
    seen: list[Experience] = []

    class Looking(DqnAlgorithm):
        def after_train_iter(self, experience: Experience) -> None:
            seen.append(experience)

    def ctor(cls: type[DqnAlgorithm]) -> Any:
        inner = partial(cls, optimizer=Adam())
        return partial(Agent, rl_algorithm_cls=inner, optimizer=Adam()) if wrapped else inner

    looking, idle = (start_replay(ctor(cls), "CartPole-v1") for cls in (Looking, DqnAlgorithm))
    assert looking.looks_at_unrolls
    looking.train_iter()
    assert [experience.length for experience in seen] == [1]
    assert not idle.looks_at_unrolls
    idle.summary.enabled = True
    idle.train_iter()
    assert "Exploration/epsilon" in idle.summary.write()
