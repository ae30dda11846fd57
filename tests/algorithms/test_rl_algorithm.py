"""Unrolling: what is acted is what is remembered."""

from __future__ import annotations

import pytest
import torch

from alfish import nest
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.types import StepType
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
    with pytest.raises(RuntimeError, match="inside"), algorithm.evaluating(torch.Generator()):
        assert not algorithm.training
        assert not torch.is_grad_enabled()
        algorithm.rollout_step(algorithm._time_step, ())
        raise RuntimeError("inside")
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
