from __future__ import annotations

from typing import Any

import torch
from torch import nn

from alfish.algorithms.actor import Actor
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.transformers.base import DataTransformer
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.specs import TensorSpec
from alfish.summary.timers import Timers
from alfish.types import AlgStep, Nest, StepType, TimeStep, replace


class Counter(RLAlgorithm):
    """Counts the steps of an episode in its state, and takes action 0."""

    on_policy = False

    def __init__(self, env: Environment) -> None:
        super().__init__(env.observation_spec, env.action_spec, rollout_state_spec=TensorSpec(()))
        self.weight = nn.Parameter(torch.ones(()))

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        return AlgStep(torch.zeros(len(state), dtype=torch.int64), state + self.weight, time_step.observation)


class Doubled(DataTransformer):
    """Counts how often it is asked."""

    calls = 0

    def transform_timestep(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        self.calls += 1
        return replace(time_step, observation=2 * time_step.observation), state


def make(env_name: str = "alfish/ConstantRewardProbe-v0", **options: Any) -> tuple[Actor, Environment, Counter]:
    """Two environments at the start; those of the default have episodes of three steps."""
    env_kwargs = {"episode_length": 3} if "Constant" in env_name else None
    env = create_environment(env_name, num_parallel_environments=2, env_kwargs=env_kwargs)
    algorithm = Counter(env)
    algorithm.data_transformer = Doubled(env.observation_spec)
    actor = Actor(algorithm, env, TrainerConfig(algorithm_ctor=Counter, **options), Timers())
    actor.move_to(env.reset(seed=0))
    return actor, env, algorithm


def test_memory_begins_anew_with_every_episode() -> None:
    actor, env, _ = make()
    states = [actor.step(env.step).state.tolist() for _ in range(6)]
    # The step at LAST only resets; at FIRST the memory is empty again.
    assert states == [[0, 0], [1, 1], [2, 2], [3, 3], [0, 0], [1, 1]]


def test_a_time_step_is_transformed_once_and_kept_as_it_was() -> None:
    actor, env, algorithm = make()
    actor.move_to(replace(actor.time_step, observation=torch.ones(2, 1)))
    assert actor.see().observation.tolist() == [[2.0], [2.0]]
    acted = actor.step(env.step)
    assert acted.seen.observation.tolist() == acted.info.tolist() == [[2.0], [2.0]]
    actor.see()
    assert isinstance(algorithm.data_transformer, Doubled)
    assert algorithm.data_transformer.calls == 2, "where it was, and where it is now"


def test_random_actions_during_the_initial_collection_only() -> None:
    actor, env, algorithm = make(initial_collect_steps=10, random_initial_collect=True)
    taken = torch.stack([actor.step(env.step).action for _ in range(20)])
    assert 0 < taken.sum() < taken.numel()
    algorithm.progress.env_steps = 10
    assert torch.stack([actor.step(env.step).action for _ in range(20)]).sum() == 0


def test_gradients_reach_back_to_where_the_graph_was_forgotten() -> None:
    actor, env, _ = make()
    actor.step(env.step)
    assert actor.state.requires_grad
    actor.forget_graph()
    assert not actor.state.requires_grad


def test_episodes_that_are_broken_off_count_as_ended() -> None:
    actor, env, _ = make()
    actor.step(env.step)
    actor.break_off(StepType.LAST)
    assert actor.time_step.is_last().all()
    assert actor.see().is_last().all()


def test_what_was_saved_fits_as_long_as_observations_and_memory_look_the_same() -> None:
    saved = make()[0].state_dict()
    assert make()[0].fits(saved)
    assert not make("CartPole-v1")[0].fits(saved)
    remembering_more, _, _ = make()
    remembering_more.state = torch.zeros(2, 5)
    assert not remembering_more.fits(saved)
