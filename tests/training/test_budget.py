from __future__ import annotations

from math import ceil

import pytest

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress
from alfish.training.budget import Budget, Milestones


def budget(num_environments: int = 4, on_policy: bool = True, **options) -> Budget:
    return Budget.of(TrainerConfig(algorithm_ctor=object, **options), num_environments, on_policy)


def at(iterations: int = 0, env_steps: int = 0) -> Progress:
    return Progress(iterations=iterations, env_steps=env_steps)


def test_an_epoch_is_as_many_iterations_as_its_steps_need():
    epochs = budget(num_epochs=2, num_steps_per_epoch=200, unroll_length=3)
    assert epochs.num_iterations == 2 * 17
    assert str(epochs) == "2 epochs of 17 iterations with 12 environment steps each"
    ends = [iteration for iteration in range(1, 35) if epochs.epoch_is_over(at(iteration))]
    assert ends == [17, 34]
    assert [epochs.epoch(at(iteration)) for iteration in (1, 17, 18, 34)] == [1, 1, 2, 2]


@pytest.mark.parametrize(("unroll_length", "expected"), [(2.5, 20), (0.25, 200), (50, 1), (51, 1), (49, 2)])
def test_an_epoch_of_fractional_or_long_unrolls(unroll_length, expected):
    epochs = budget(num_epochs=1, num_steps_per_epoch=200, unroll_length=unroll_length)
    assert epochs.num_iterations == expected


def test_when_nobody_acts_the_steps_of_an_epoch_are_updates():
    config = TrainerConfig(algorithm_ctor=object, num_epochs=3, num_steps_per_epoch=10)
    epochs = Budget.offline(config, updates_per_iter=4)
    assert epochs.num_iterations == 9
    assert str(epochs) == "3 epochs of 3 iterations with 4 updates each"
    assert epochs.fraction(at(3)) == 1 / 3
    iterations = Budget.offline(TrainerConfig(algorithm_ctor=object, num_iterations=5), updates_per_iter=4)
    assert (iterations.num_iterations, str(iterations)) == (5, "5 iterations")


def test_of_unrolls_that_take_what_is_there_the_longest_counts_ahead():
    by_steps = budget(
        num_iterations=0, num_env_steps=100, async_unroll=True, unroll_length=0, max_unroll_length=5, on_policy=False
    )
    assert by_steps.next_fraction(at(env_steps=40)) == 0.6


def test_no_epochs_are_used_up_at_once():
    assert budget(num_epochs=0, num_steps_per_epoch=200).is_used_up(at())


def test_iterations_as_budget():
    by_iterations = budget(num_iterations=10)
    assert [by_iterations.fraction(at(n)) for n in (0, 5, 10, 12)] == [0.0, 0.5, 1.0, 1.0]
    assert by_iterations.may_interact(at(env_steps=10**9))
    assert str(by_iterations) == "10 iterations"


def test_environment_steps_as_budget():
    by_steps = budget(num_iterations=0, num_env_steps=100)
    assert [by_steps.fraction(at(7, n)) for n in (0, 25, 99, 100, 130)] == [0.0, 0.25, 0.99, 1.0, 1.0]
    assert not by_steps.is_used_up(at(7, 99))


@pytest.mark.parametrize(("on_policy", "fraction"), [(True, 1.0), (False, 0.5)])
def test_with_both_limits_only_replay_can_go_on_after_the_last_environment_step(on_policy, fraction):
    both = budget(on_policy=on_policy, num_iterations=10, num_env_steps=100)
    assert both.fraction(at(5, 100)) == fraction
    assert both.fraction(at(10, 50)) == 1.0
    assert both.may_interact(at(5, 99))
    assert not both.may_interact(at(5, 100))
    assert str(both) == "10 iterations or 100 environment steps"


def test_the_next_iteration_cannot_come_further_than_said():
    # 2.5 steps are sometimes 3, in each of 4 environments.
    assert budget(num_iterations=0, num_env_steps=100, unroll_length=2.5).next_fraction(at(3, 20)) == 0.32
    assert budget(num_iterations=10).next_fraction(at(3)) == 0.4
    # Nobody knows how long an episode is.
    assert budget(num_iterations=0, num_env_steps=100, unroll_episodes=2).next_fraction(at(3, 20)) == 1.0
    assert budget(num_iterations=10, unroll_episodes=2).next_fraction(at(3)) == 0.4


@pytest.mark.parametrize("total", [1, 7, 10, 100, 333])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 10])
def test_milestones_are_evenly_spaced_and_the_last_one_is_the_end(total, count):
    milestones = Milestones(count)
    hits = [n for n in range(1, total + 1) if milestones.passed(n / total)]
    assert hits == sorted({ceil(total * (k + 1) / count) for k in range(count)})
    assert hits[-1] == total
    assert len(hits) == min(count, total)


def test_no_milestones_are_never_passed():
    assert not Milestones(0).passed(1.0)


def test_looking_ahead_does_not_pass_a_milestone():
    milestones = Milestones(2)
    assert [milestones.will_pass(0.5), milestones.passed(0.5), milestones.will_pass(0.9)] == [True, True, False]


def test_over_data_every_iteration_is_an_epoch():
    budget = Budget.of_epochs(4)
    assert str(budget) == "4 epochs"
    assert [budget.fraction(Progress(iterations=n)) for n in range(6)] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    assert [budget.epoch(Progress(iterations=n)) for n in (1, 2, 3)] == [1, 2, 3]
    assert budget.epoch_is_over(Progress(iterations=3))
    assert budget.next_fraction(Progress(iterations=1)) == 0.5
