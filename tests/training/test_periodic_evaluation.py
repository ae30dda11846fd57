from __future__ import annotations

import pytest

from alfish.environments.sync import SyncEnvironment
from alfish.training.stop_condition import Plateau, ReturnAtLeast
from tests.training.tiny import ENDLESS, EVERY_ITERATION, bind, column, make, rows, steps, train, weights

EVAL = "run/eval/progress.csv"
SHORT_LIMIT = "create_environment.max_episode_steps = 3"


def evaluated(root_dir: str = "run", name: str = "iterations") -> list[float]:
    return column(f"{root_dir}/eval/progress.csv", name)


@pytest.mark.parametrize(
    ("num_evals", "iterations", "expected"), [(1, 7, [7]), (2, 7, [4, 7]), (3, 9, [3, 6, 9]), (9, 9, [*range(1, 10)])]
)
def test_exactly_as_many_evaluations_as_asked_for(num_evals, iterations, expected):
    bind()
    train(num_iterations=iterations, evaluate=True, num_evals=num_evals)
    assert evaluated() == expected
    assert steps("run/eval", "Metrics/AverageReturn") == expected


def test_exactly_as_many_over_environment_steps():
    bind(ENDLESS + SHORT_LIMIT)
    # 20 steps per iteration, of which the resets do not count.
    trainer = train(num_iterations=0, num_env_steps=200, evaluate=True, num_evals=4)
    at = evaluated(name="env_steps")
    assert len(at) == 4
    assert all(50 * (k + 1) <= steps < 50 * (k + 1) + 20 for k, steps in enumerate(at))
    assert at[-1] == trainer.progress.env_steps


@pytest.mark.parametrize(("interval", "expected"), [(1, [1, 2, 3, 4]), (2, [2, 4]), (3, [3, 4]), (10, [4])])
def test_one_evaluation_per_interval_and_one_at_the_end(interval, expected):
    bind()
    train(evaluate=True, eval_interval=interval)
    assert evaluated() == expected


def test_an_epoch_ends_with_an_evaluation():
    bind()
    seen = []
    trainer = make(num_iterations=1000, num_epochs=3, num_steps_per_epoch=40, evaluate=True)
    for epoch in trainer:
        seen.append((epoch.epoch, epoch.evaluation.iteration))
    assert seen == [(1, 2), (2, 4), (3, 6)]
    assert evaluated() == [2, 4, 6]


def test_a_resumed_run_evaluates_as_often_as_one_that_was_not_stopped():
    bind()
    train("whole", num_iterations=8, evaluate=True, num_evals=4)
    train(num_iterations=4, evaluate=True, num_evals=2)
    train(num_iterations=8, evaluate=True, num_evals=4)
    assert evaluated() == evaluated("whole") == [2, 4, 6, 8]


@pytest.mark.parametrize(("num_episodes", "environments", "expected"), [(10, 1, 10), (4, 3, 6), (-1, 3, 3)])
def test_as_many_episodes_as_asked_for_in_environments_of_its_own(num_episodes, environments, expected):
    bind()
    options = {"num_eval_episodes": num_episodes, "num_eval_environments": environments}
    trainer = train(num_iterations=1, evaluate=True, **options)
    assert len(trainer.result.evaluation.returns) == expected


def test_evaluation_does_not_change_what_is_learned():
    bind('create_environment.env_name = "CartPole-v1"')
    without = weights(train("without"))
    assert (weights(train("with", epsilon_greedy=0.5, **EVERY_ITERATION)) == without).all()


def test_evaluations_play_the_same_episodes_each_time_and_not_those_of_training(monkeypatch):
    bind()
    seeds = []
    reset = SyncEnvironment.reset
    monkeypatch.setattr(SyncEnvironment, "reset", lambda env, seed=None: seeds.append(seed) or reset(env, seed))
    train(**EVERY_ITERATION)
    training, *evaluations = seeds
    assert len(evaluations) == 4
    assert len(set(evaluations)) == 1
    assert training not in evaluations


def test_the_score_is_what_the_config_says():
    bind()
    trainer = train(score_fn=lambda result: 7.0 - result.iteration, **EVERY_ITERATION)
    result = trainer.result
    assert (result.evaluation.score, result.evaluation.best_score, result.best_score) == (3.0, 6.0, 6.0)
    assert [float(row["Metrics/Score"]) for row in rows(EVAL)] == [6.0, 5.0, 4.0, 3.0]
    assert [float(row["Metrics/BestScore"]) for row in rows(EVAL)] == [6.0] * 4


def test_the_stop_condition_ends_the_run():
    bind()
    condition = ReturnAtLeast(2.0)
    trainer = train(stop_condition=condition, score_fn=lambda result: float(result.iteration), **EVERY_ITERATION)
    assert trainer.result.iterations == 2
    assert trainer.result.stopped_by == "ReturnAtLeast"
    assert evaluated() == [1, 2]


def test_training_returns_that_meet_the_condition_lead_to_an_evaluation_at_once():
    bind(ENDLESS + SHORT_LIMIT)  # every return is 3
    options = {"num_iterations": 50, "evaluate": True, "eval_interval": 40, "stop_condition": ReturnAtLeast(3.0)}
    trainer = train("at_once", evaluate_upon_training_success=True, **options)
    assert trainer.result.iterations == 1
    assert trainer.folder.checkpoints.newest().iteration == 1
    assert train("later", **options).result.iterations == 40


def test_training_returns_that_do_not_meet_the_condition_lead_to_none():
    bind(ENDLESS + SHORT_LIMIT)
    options = {"num_iterations": 5, "evaluate": True, "stop_condition": ReturnAtLeast(3.5)}
    train(evaluate_upon_training_success=True, **options)
    assert evaluated() == [5]


def test_success_in_training_alone_does_not_end_the_run():
    bind(ENDLESS + SHORT_LIMIT)
    scores = {"score_fn": lambda result: 9.0 if len(result.returns) > 1 else 0.0}  # an evaluation is one episode
    options = {"stop_condition": ReturnAtLeast(9.0), "num_iterations": 3, "metric_min_buffer_size": 4, **scores}
    trainer = train(evaluate_upon_training_success=True, **{**EVERY_ITERATION, "eval_interval": 10}, **options)
    assert trainer.result.stopped_by == "budget"
    assert evaluated() == [1, 2, 3]


def test_a_condition_that_counts_evaluations_counts_only_these():
    bind(ENDLESS + SHORT_LIMIT)
    options = {"stop_condition": Plateau(patience=2), "eval_interval": 4, "num_eval_episodes": 1}
    trainer = train(num_iterations=30, evaluate=True, evaluate_upon_training_success=True, **options)
    # The first evaluation is the best, the second does not grow. Returns like those of training would then be enough,
    # so the third comes at once; training itself, which never grows, has not counted.
    assert evaluated() == [4, 8, 9]
    assert trainer.result.stopped_by == "Plateau"
