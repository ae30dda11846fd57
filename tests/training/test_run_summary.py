from __future__ import annotations

import pytest

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress
from alfish.training.budget import Budget
from alfish.training.run_summary import SummarySchedule
from tests.training.tiny import ENDLESS, bind, column, events, steps, train

TRAIN = "run/progress.csv"


def written() -> list[float]:
    """The iterations in the table; TensorBoard has the same."""
    iterations = column(TRAIN)
    assert steps("run/train") == iterations
    assert steps("run/train", "Loss/loss") == iterations
    return iterations


@pytest.mark.parametrize(
    ("interval", "first", "expected"),
    [(3, False, [3, 6, 9]), (4, False, [4, 8]), (3, True, [1, 2, 3, 6, 9]), (1, True, [*range(1, 10)])],
)
def test_every_interval(interval, first, expected):
    bind()
    train(num_iterations=9, summary_interval=interval, summarize_first_interval=first)
    assert written() == expected


@pytest.mark.parametrize(
    ("number", "first", "expected"), [(3, False, [3, 6, 9]), (2, False, [5, 9]), (3, True, [1, 2, 3, 6, 9])]
)
def test_exactly_as_many_as_asked_for(number, first, expected):
    bind()
    train(num_iterations=9, num_summaries=number, summarize_first_interval=first)
    assert written() == expected


def test_exactly_as_many_over_environment_steps():
    bind(ENDLESS)
    options = {"num_iterations": 0, "num_env_steps": 200, "unroll_length": 2.5, "num_summaries": 4}
    train(summarize_first_interval=False, **options)  # in turns 8 and 12 steps
    assert written() == [6, 10, 16, 20]


def test_exactly_as_many_with_whole_episodes():
    bind()  # episodes of 5 steps
    episodes = {"unroll_length": 8, "unroll_episodes": 4}
    train(num_iterations=0, num_env_steps=160, num_summaries=4, summarize_first_interval=False, **episodes)
    assert written() == [2, 4, 6, 8]


def test_each_step_is_shown_once_after_a_resume():
    bind()
    options = {"num_summaries": 4, "summarize_first_interval": False, "num_checkpoints": 2}
    train(num_iterations=8, **options)
    train(num_iterations=16, **options)
    assert written() == [2, 4, 6, 8, 12, 16]


def test_what_a_killed_run_wrote_after_its_last_checkpoint_is_written_again():
    bind()
    options = {"summary_interval": 1, "num_checkpoints": 2}
    trainer = train(num_iterations=8, **options)
    trainer.folder.checkpoints.remove(trainer.folder.checkpoints.at(8))
    first = column(TRAIN, "Loss/loss")
    train(num_iterations=8, **options)
    assert written() == [*range(1, 9)]
    assert column(TRAIN, "Loss/loss") == first


def test_metrics_are_written_against_environment_steps_and_time_too():
    bind(ENDLESS)
    train(num_iterations=3, summary_interval=1)
    assert steps("run/train", "Metrics_vs_EnvironmentSteps/EnvironmentSteps") == [20, 40, 60]
    assert column(TRAIN, "env_steps") == [20, 40, 60]
    assert column(TRAIN, "seconds") == sorted(column(TRAIN, "seconds"))
    assert "Metrics_vs_WallTime/EnvironmentSteps" in events("run/train").Tags()["scalars"]


def tags(**options) -> dict[str, set[str]]:
    found = events(train(num_iterations=1, **options).folder.path / "train").Tags()
    return {kind: set(found[kind]) for kind in ("scalars", "histograms")}


def test_gradients_and_parameters_are_summarized_when_asked_for():
    bind()
    plain = tags(root_dir="plain")
    full = tags(root_dir="full", summarize_grads_and_vars=True)
    assert plain["histograms"] == set()
    assert {name.partition("/")[0] for name in full["histograms"]} == {"Parameters", "Gradients"}
    assert len(full["histograms"]) == 2 * 8
    assert full["scalars"] == plain["scalars"]


def test_iterations_that_do_not_write_do_not_collect():
    config = TrainerConfig(algorithm_ctor=object, num_iterations=9, summary_interval=3, summarize_first_interval=False)
    progress = Progress()
    schedule = SummarySchedule(config, Budget.of(config, 4, True), progress)
    collects = []
    for iteration in range(9):
        progress.iterations = iteration
        collects.append(schedule.next_may_write())
    assert collects == [False, False, True] * 3


@pytest.mark.parametrize("window", [1, 3, 100])
def test_metrics_average_over_the_latest_episodes(window):
    bind(
        'create_environment.env_name = "alfish/PolicyUnittest-v0"\nPolicyUnittestEnv.episode_length = 1\n'
        "create_environment.num_parallel_environments = 1"
    )
    trainer = train(metric_min_buffer_size=window, num_iterations=6, summary_interval=1)
    returns = trainer.algorithm.metrics.latest("AverageReturn")
    assert len(returns) == min(window, trainer.progress.episodes)
    assert column(TRAIN, "Metrics/AverageReturn")[-1] == pytest.approx(sum(returns) / len(returns))


def test_the_window_holds_an_episode_of_each_environment_at_least():
    bind()
    trainer = train(metric_min_buffer_size=1, num_iterations=10)
    assert len(trainer.algorithm.metrics.latest("AverageReturn")) == 4
