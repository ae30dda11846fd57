from __future__ import annotations

import pytest
import torch

import alfish
from alfish import nest
from alfish.environments.create import create_environment
from alfish.environments.episodes import SeededEpisodes
from alfish.environments.probe_envs import ConstantRewardProbe
from alfish.environments.sync import SyncEnvironment
from alfish.environments.unittest_envs import ValueUnittestEnv
from alfish.seeding import Seeds
from alfish.training.evaluator import Evaluator, create_eval_environment
from tests.training.tiny import bind, make


def lengths_env(*lengths: int) -> SyncEnvironment:
    """Environments whose episodes have these lengths, and as many rewards of 1."""
    envs = [ConstantRewardProbe(episode_length=length) for length in lengths]
    return SyncEnvironment([SeededEpisodes(env, "probe", index) for index, env in enumerate(envs)])


@pytest.fixture
def algorithm():
    bind()
    trainer = make()
    yield trainer.algorithm
    trainer.close()


@pytest.mark.parametrize(
    ("num_episodes", "expected"), [(4, (1, 1, 100, 100)), (-1, (1, 100)), (1, (1, 100)), (3, (1, 1, 100, 100))]
)
def test_short_episodes_are_not_over_counted(algorithm, num_episodes, expected):
    returns, lengths = Evaluator(lengths_env(1, 100), Seeds(1)).evaluate(algorithm, num_episodes)
    assert lengths == expected
    assert returns == tuple(map(float, expected))


def test_the_components_of_a_vector_reward_are_added(algorithm):
    env = SyncEnvironment([SeededEpisodes(ValueUnittestEnv(episode_length=4, reward_dim=3), "value", 0)])
    returns, lengths = Evaluator(env, Seeds(1)).evaluate(algorithm, 2)
    assert (returns, lengths) == ((12.0, 12.0), (4, 4))


def test_equal_parameters_play_equal_episodes(algorithm):
    with create_environment() as env:
        evaluator = Evaluator(env, Seeds(1))
        algorithm.epsilon_greedy = 0.5
        first = evaluator.evaluate(algorithm, 40)
        assert evaluator.evaluate(algorithm, 40) == first
        assert Evaluator(env, Seeds(2)).evaluate(algorithm, 40) != first


def test_training_is_not_disturbed(algorithm):
    algorithm.epsilon_greedy = 1.0
    states = [part.generator.get_state() for part in algorithm.tree()]
    generators = [part.generator for part in algorithm.tree()]
    seen = []
    predict_step = algorithm.predict_step
    algorithm.predict_step = lambda *arguments: (
        seen.append((algorithm.training, torch.is_grad_enabled())) or predict_step(*arguments)
    )
    before = torch.get_rng_state()
    Evaluator(lengths_env(3, 3), Seeds(1)).evaluate(algorithm, 4)
    assert set(seen) == {(False, False)}
    assert algorithm.training
    assert all(module.training for module in algorithm.modules())
    assert [part.generator for part in algorithm.tree()] == generators
    assert all(torch.equal(g.get_state(), state) for g, state in zip(generators, states, strict=True))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("epsilon", "kinds"), [(0.0, 1), (0.5, 2), (1.0, 2)])
def test_epsilon_greedy_of_the_config_samples_actions(epsilon, kinds):
    # The return of an episode tells its only action; an untrained policy samples both.
    bind('create_environment.env_name = "alfish/ActionRewardProbe-v0"')
    options = {"evaluate": True, "num_eval_episodes": 64, "num_iterations": 1, "epsilon_greedy": epsilon}
    result = make(**options).train()
    assert len(set(result.evaluation.returns)) == kinds


def test_memory_begins_anew_with_every_episode():
    bind("PPOAlgorithm.actor_network_ctor = @ActorDistributionRnnNetwork")
    trainer = make()
    states = []
    predict_step = trainer.algorithm.predict_step
    trainer.algorithm.predict_step = lambda time_step, state: (
        states.append(state.actor) or predict_step(time_step, state)
    )
    env = SyncEnvironment([SeededEpisodes(ValueUnittestEnv(episode_length=2), "value", 0)])
    Evaluator(env, Seeds(1)).evaluate(trainer.algorithm, 2)
    is_zero = [not any(leaf.any() for leaf in nest.leaves(state)) for state in states]
    assert is_zero == [True, False, False, True, False]  # at FIRST MID LAST FIRST MID; LAST ends it
    trainer.close()


def test_bindings_in_the_scope_eval_hold_for_evaluation_only() -> None:
    alfish.load_config(
        overrides={"create_environment.env_name": "CartPole-v1", "eval/create_environment.max_episode_steps": 3}
    )
    generator = torch.Generator().manual_seed(0)
    lengths = {}
    for name, env in {"train": create_environment(), "eval": create_eval_environment(1)}.items():
        env.reset(seed=0)
        steps = (env.step(torch.randint(2, (1,), generator=generator)) for _ in range(100))
        lengths[name] = next(number for number, step in enumerate(steps, 1) if step.is_last())
    assert lengths["eval"] == 3
    assert lengths["train"] > 3
