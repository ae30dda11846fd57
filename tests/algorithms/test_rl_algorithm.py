"""Unrolling: what is acted is what is remembered."""

from __future__ import annotations

import pytest
import torch

from alfish import nest
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.types import AlgStep, StepType
from tests.algorithms.runs import start_run


def test_an_unroll_continues_where_the_last_one_ended() -> None:
    algorithm = start_run(unroll_length=5)
    first, second = algorithm.unroll(5), algorithm.unroll(5)
    assert (first.time_step.step_type[0] == StepType.FIRST).all()
    for before, after in zip(nest.leaves(first.time_step), nest.leaves(second.time_step), strict=True):
        assert torch.equal(before[-1], after[0])


def test_the_action_of_a_row_leads_to_the_next_row() -> None:
    experience = start_run(unroll_length=64).unroll(64)
    assert experience.length == 64
    led_to, first = experience.time_step.prev_action[1:], experience.time_step.is_first()[1:]
    assert torch.equal(led_to[~first], experience.action[~first])
    assert first.any()
    assert (led_to[first] == 0).all()


def test_counters() -> None:
    algorithm = start_run(env_name="alfish/ValueUnittest-v0", env_kwargs={"episode_length": 3}, unroll_length=8)
    algorithm.train_iter()
    # 1 1 L F 1 1 L F: of eight steps two only reset; two episodes ended in each of four environments
    assert (algorithm.progress.env_steps, algorithm.progress.episodes) == (4 * 6, 8)
    assert algorithm.metrics.average_return == 3.0
    assert algorithm.progress.iterations == 1


def test_without_interaction_nothing_is_acted() -> None:
    algorithm = start_run(unroll_length=4)
    algorithm.train_iter(interact=False)
    assert (algorithm.progress.iterations, algorithm.progress.env_steps, algorithm.progress.updates) == (1, 0, 0)


@pytest.mark.parametrize("with_grad", [False, True])
def test_gradients_are_recorded_only_when_asked_for(with_grad: bool) -> None:
    algorithm = start_run(unroll_length=2, unroll_with_grad=with_grad)
    info = algorithm.unroll(2).rollout_info
    assert info.action_distribution.logits.requires_grad is with_grad
    assert torch.is_grad_enabled()


def test_evaluating_leaves_mode_and_random_streams_as_they_were() -> None:
    algorithm = start_run(PPOAlgorithm, unroll_length=4)
    state = algorithm.generator.get_state()
    with algorithm.evaluating(torch.Generator()):
        assert not algorithm.training
        assert not torch.is_grad_enabled()
        algorithm.rollout_step(algorithm.time_step, ())
    assert algorithm.training
    assert torch.is_grad_enabled()
    assert torch.equal(algorithm.generator.get_state(), state)


def test_run_state_restores_streams_and_carry() -> None:
    algorithm = start_run(PPOAlgorithm, unroll_length=2.5)
    algorithm.train_iter()
    saved = algorithm.run_state()
    expected = torch.rand(3, generator=algorithm.generator)
    other = start_run(PPOAlgorithm, unroll_length=2.5, seed=1)
    other.load_run_state(saved)
    assert torch.equal(torch.rand(3, generator=other.generator), expected)
    assert other._carry.rest == 0.5
    assert other.metrics.env_steps == algorithm.metrics.env_steps


def test_after_a_restore_the_returns_of_abandoned_episodes_are_forgotten() -> None:
    algorithm = start_run(env_name="alfish/ValueUnittest-v0", env_kwargs={"episode_length": 5}, unroll_length=3)
    algorithm.train_iter()
    other = start_run(env_name="alfish/ValueUnittest-v0", env_kwargs={"episode_length": 5}, unroll_length=3)
    other.load_run_state(algorithm.run_state())
    for _ in range(2):
        other.train_iter()
    assert other.metrics.average_return == 5.0


@pytest.mark.parametrize(("number", "quotas"), [(4, [1, 1, 1, 1]), (6, [2, 2, 1, 1]), (2, [1, 1, 0, 0])])
def test_whole_episodes_equally_many_from_each_environment(number: int, quotas: list[int]) -> None:
    algorithm = start_run(PPOAlgorithm, unroll_episodes=number, num_updates_per_train_iter=1)
    for iteration in range(3):
        before = algorithm.metrics.env_steps
        experience = algorithm.unroll_episodes(number)
        steps = experience.time_step
        assert algorithm.metrics.episodes == number * (iteration + 1)
        # An action counts unless its row is LAST; every one of them belongs to one of the episodes.
        counted = (steps.step_type[:-1] != StepType.LAST).sum(0)
        assert counted.sum() == algorithm.metrics.env_steps - before
        assert (counted > 0).tolist() == [quota > 0 for quota in quotas]
        assert steps.is_last()[-1].all()
        assert steps.is_first().sum(0).tolist() == quotas


def test_episodes_of_very_different_length_count_equally() -> None:
    algorithm = start_run(PPOAlgorithm, unroll_episodes=4, num_environments=2, num_updates_per_train_iter=1)
    algorithm.train_iter()
    assert algorithm.progress.episodes == 4
    assert len(algorithm.metrics.latest("AverageReturn")) == 4
    assert algorithm.progress.updates >= 1


def test_random_actions_until_the_initial_collection_is_done() -> None:
    from tests.algorithms.test_off_policy import start

    algorithm = start(
        env_name="alfish/PolicyUnittest-v0",
        whole_replay_buffer_training=False,
        initial_collect_steps=400,
        random_initial_collect=True,
        mini_batch_size=8,
        num_environments=10,
    )
    algorithm.rollout_step = lambda time_step, state: AlgStep(torch.ones_like(time_step.env_id))
    taken = []
    for _ in range(60):
        taken.append(algorithm.unroll(1).action)
    early, late = torch.stack(taken[:45]).float(), torch.stack(taken[50:]).float()
    assert early.mean().item() == pytest.approx(0.5, abs=0.08)
    assert (late == 1).all()
