from __future__ import annotations

from pathlib import Path

import pytest

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress
from alfish.summary.writer import Moment
from alfish.training.budget import Budget
from alfish.training.run_summary import SummarySchedule
from tests.training.tiny import ENDLESS, EVERY_ITERATION, bind, column, events, rows, steps, train

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
    assert full["scalars"] - plain["scalars"] == {f"{name}/norm" for name in full["histograms"]}


def test_losses_of_every_update_when_asked_for():
    bind()
    options = {"num_updates_per_train_iter": 3, "summary_interval": 2, "summarize_first_interval": False}
    train(num_iterations=4, update_counter_every_mini_batch=True, **options)
    assert steps("run/train", "Loss/loss") == [4, 5, 6, 10, 11, 12]
    assert steps("run/train", "Optimizer/Adam/gradient_norm") == [4, 5, 6, 10, 11, 12]
    assert steps("run/train") == column(TRAIN) == [2, 4]  # metrics still belong to iterations
    assert "Loss/loss" not in rows(TRAIN)[0]
    table = "run/updates.csv"
    assert (column(table, "updates"), column(table)) == ([4, 5, 6, 10, 11, 12], [2, 2, 2, 4, 4, 4])
    shown = [event.value for event in events("run/train").Scalars("Loss/loss")]
    assert column(table, "Loss/loss") == pytest.approx(shown)


def test_no_update_is_shown_twice_after_a_resume():
    bind()
    options = {"summary_interval": 1, "num_checkpoints": 2, "update_counter_every_mini_batch": True}
    trainer = train(num_iterations=8, **options)
    trainer.folder.checkpoints.remove(trainer.folder.checkpoints.at(8))
    train(num_iterations=8, **options)
    assert steps("run/train", "Loss/loss") == column("run/updates.csv", "updates") == [*range(1, 9)]


def test_the_mean_over_updates_is_what_an_iteration_shows():
    bind()
    options = {"num_updates_per_train_iter": 3, "summary_interval": 1, "num_iterations": 2}
    train("each", update_counter_every_mini_batch=True, **options)
    train("mean", **options)
    losses = column("each/updates.csv", "Loss/loss")
    assert column("mean/progress.csv", "Loss/loss") == pytest.approx([sum(losses[:3]) / 3, sum(losses[3:]) / 3])
    assert not Path("mean/updates.csv").exists()


class Recording:
    """A logger that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[Moment, dict[str, float]]] = []
        self.folder = Path()
        self.num_closed = 0

    def open(self, folder: Path) -> None:
        self.folder = folder

    def write(self, moment: Moment, values: dict[str, float]) -> None:
        assert not self.num_closed
        self.lines.append((moment, dict(values)))

    def close(self) -> None:
        self.num_closed += 1


def test_loggers_get_the_numbers_of_training_and_evaluation():
    bind()
    logger = Recording()
    train(num_iterations=2, summary_interval=1, loggers=[logger], **EVERY_ITERATION)
    assert (logger.folder, logger.num_closed) == (Path("run"), 1)
    training = [line for line in logger.lines if "Loss/loss" in line[1]]
    evaluations = [line for line in logger.lines if "eval/Metrics/AverageReturn" in line[1]]
    assert len(training) + len(evaluations) == len(logger.lines)
    assert [moment.env_steps for moment, _ in training] == column(TRAIN, "env_steps")
    assert [values["Loss/loss"] for _, values in training] == column(TRAIN, "Loss/loss")
    scores = [values["eval/Metrics/Score"] for _, values in evaluations]
    assert scores == column("run/eval/progress.csv", "Metrics/Score")
    assert all(tag.startswith("eval/") for _, values in evaluations for tag in values)


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
