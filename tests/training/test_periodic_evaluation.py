from __future__ import annotations

import os
import signal
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.config.problems import ConfigProblems
from alfish.environments.sync import SyncEnvironment
from alfish.training import environment_task, periodic_evaluation, signals
from alfish.training.checkpoint import CheckpointFolder
from alfish.training.evaluator import Evaluated, Finished, InProcessEvaluator
from alfish.training.stop_condition import Plateau, ReturnAtLeast, WallTime
from tests.training.tiny import (
    ENDLESS,
    EVERY_ITERATION,
    OPTIONS,
    bind,
    column,
    make,
    rows,
    saved,
    steps,
    train,
    weights,
)

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


@pytest.mark.parametrize("stopped_at", [1, 2, 3])
def test_a_stop_condition_remembers_what_came_before_a_resume(stopped_at):
    bind()
    scores = {**EVERY_ITERATION, "score_fn": lambda result: 1.0}
    train(num_iterations=stopped_at, stop_condition=Plateau(patience=3), **scores)
    assert train(num_iterations=9, stop_condition=Plateau(patience=3), **scores).progress.iterations == 4


def test_another_stop_condition_begins_anew():
    bind()
    scores = {**EVERY_ITERATION, "score_fn": lambda result: 1.0}
    train(num_iterations=2, stop_condition=Plateau(patience=3), **scores)
    again = train(num_iterations=9, stop_condition=WallTime(1e6), **scores)
    assert again.progress.iterations == 9
    train("other", num_iterations=2, **scores)
    assert train("other", num_iterations=9, stop_condition=Plateau(patience=3), **scores).progress.iterations == 6


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


# In another process


class Delayed(InProcessEvaluator):
    """Plays with a copy of the algorithm, and tells the result when it was asked `delay` times more, or waited for."""

    delay = 2

    def __init__(self, setup: Any, algorithm: RLAlgorithm, seeds: Any, timeout: float) -> None:
        self._config = SimpleNamespace(num_eval_episodes=1, num_eval_environments=1, reward_reduction=None)
        super().__init__(self._config, seeds)
        self._due: list[tuple[int, Evaluated]] = []
        self._time = 0

    @property
    def pending(self) -> Evaluated | None:
        return self._due[-1][1] if self._due else None

    def submit(self, evaluated: Evaluated, algorithm: RLAlgorithm) -> None:
        super().submit(evaluated, algorithm)
        self._due.append((self._time + self.delay, evaluated))

    def take(self) -> list[Finished]:
        count = sum(time <= self._time for time, _ in self._due)
        self._time += 1
        del self._due[:count]
        finished, self._finished = self._finished[:count], self._finished[count:]
        return finished

    def give_up(self) -> None:
        self._due.clear()


@pytest.fixture
def delayed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Options for evaluations whose results come two iterations later."""
    monkeypatch.setattr(environment_task, "AsyncEvaluator", Delayed)
    bind()
    return {"async_eval": True, "num_checkpoints": 0, **EVERY_ITERATION}


def test_results_that_come_later_are_written_against_the_moment_of_their_parameters(delayed):
    at = []
    hooks = [SimpleNamespace(on_eval_end=lambda context: at.append((context.progress.iterations, context.result)))]
    trainer = train(num_iterations=5, hooks=hooks, **delayed)
    assert [(iteration, result.iteration) for iteration, result in at] == [(3, 1), (4, 2), (5, 3), (5, 4), (5, 5)]
    assert evaluated() == [1, 2, 3, 4, 5] == steps("run/eval", "Metrics/AverageReturn")
    assert evaluated(name="env_steps") == [result.env_steps for _, result in at]
    assert trainer.result.evaluation.iteration == 5


def test_the_best_checkpoint_holds_the_parameters_that_were_evaluated_though_training_went_on(delayed):
    models = {}

    def remember(context) -> None:
        models[context.progress.iterations] = deepcopy(context.algorithm.state_dict())

    hooks = [SimpleNamespace(on_eval_start=remember)]
    scores = [1.0, 3.0, 2.0, 0.0, 0.0, 0.0]
    trainer = train(num_iterations=6, hooks=hooks, score_fn=lambda result: scores[result.iteration - 1], **delayed)
    assert saved() == [2, 6]
    best = trainer.folder.checkpoints.find("best")
    assert (best.iteration, best.is_model_only, best.damage()) == (2, True, None)
    assert sorted(path.name for path in best.path.iterdir()) == ["manifest.json", "model.pt"]
    held = best.load("model")
    assert held.keys() == models[2].keys()
    assert all(torch.equal(held[name], models[2][name]) for name in held)
    assert not all(torch.equal(held[name], models[6][name]) for name in held)


def test_a_run_does_not_go_on_from_a_checkpoint_that_holds_the_model_alone(delayed):
    scores = [0.0, 0.0, 0.0, 9.0, 1.0, 1.0, 1.0]
    options = {**delayed, "score_fn": lambda result: scores[result.iteration - 1]}

    def stop(context) -> None:
        if context.progress.iterations == 6:
            raise SystemExit("pulled the plug")

    with pytest.raises(SystemExit, match="pulled the plug"):
        train(num_iterations=7, hooks=[SimpleNamespace(on_iteration_end=stop)], **{**options, "num_checkpoints": 2})
    assert saved() == [1, 4]  # 1 was the best when 4 was saved; 4 was due anyway, and needs no other
    with pytest.raises(SystemExit, match="pulled the plug"):
        train("alone", num_iterations=7, hooks=[SimpleNamespace(on_iteration_end=stop)], **options)
    folder = CheckpointFolder(Path("alone/checkpoints"))
    assert saved("alone") == [4]
    assert folder.find("latest").is_model_only  # good enough to look at
    trainer = make("alone", num_iterations=7, **options)
    assert trainer.progress.iterations == 0
    trainer.close()


def test_what_became_the_best_after_the_checkpoint_is_forgotten_with_what_was_learned(delayed):
    scores = [1.0, 2.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0]
    options = {**delayed, "num_checkpoints": 2, "score_fn": lambda result: scores[result.iteration - 1]}

    def stop(context) -> None:
        if context.progress.iterations == 7:
            raise SystemExit("pulled the plug")

    with pytest.raises(SystemExit, match="pulled the plug"):
        train(num_iterations=8, hooks=[SimpleNamespace(on_iteration_end=stop)], **options)
    assert saved() == [2, 4, 5]  # 2 was the best when 4 was saved
    trainer = make(num_iterations=8, **options)
    assert (trainer.progress.iterations, trainer.result.best_score, saved()) == (4, 2.0, [2, 4])
    assert trainer.folder.checkpoints.find("best").iteration == 2
    trainer.train()
    assert trainer.folder.checkpoints.find("best").iteration == 5
    assert saved() == [4, 5, 8]


def test_an_evaluation_that_a_stop_left_unfinished_is_made_up_for(delayed):
    options = {**delayed, "eval_interval": 3}

    def interrupt(context) -> None:
        if context.progress.iterations == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    result = make(num_iterations=20, hooks=[SimpleNamespace(on_iteration_end=interrupt)], **options).train()
    assert (result.iterations, result.evaluation) == (4, None)
    train(num_iterations=8, **options)
    assert evaluated() == [5, 6, 8]


def test_a_stop_condition_ends_the_run_when_the_result_comes(delayed):
    options = {**delayed, "stop_condition": ReturnAtLeast(2.0), "score_fn": lambda result: float(result.iteration)}
    trainer = train(num_iterations=9, **options)
    assert (trainer.result.iterations, trainer.result.stopped_by) == (4, "ReturnAtLeast")
    assert evaluated() == [1, 2]
    assert trainer.folder.checkpoints.find("best").iteration == 2


def test_success_in_training_asks_for_one_evaluation_at_a_time(delayed):
    bind(ENDLESS + SHORT_LIMIT)  # every return is 3
    options = {**delayed, "eval_interval": 40, "stop_condition": ReturnAtLeast(3.0)}
    trainer = train(num_iterations=50, evaluate_upon_training_success=True, **options)
    assert trainer.result.iterations == 3
    assert evaluated() == [1]


def test_the_last_evaluation_is_not_waited_for_longer_than_allowed(delayed, monkeypatch, capfd):
    monkeypatch.setattr(Delayed, "delay", 10**9)
    monkeypatch.setattr(periodic_evaluation, "_SECONDS_BETWEEN_WORDS", 0.0)
    trainer = train(eval_timeout=0.05, verbose=True, **delayed)
    assert trainer.result.stopped_by == "budget"
    assert trainer.result.evaluation is None
    err = capfd.readouterr().err
    assert "waiting for the evaluation of iteration 4, since 0 s" in err
    assert "the evaluation of iteration 4 is not waited for any longer. Raise TrainerConfig.eval_timeout" in err


@pytest.mark.parametrize("way", ["signal", "file"])
def test_an_evaluation_can_be_asked_for_from_outside(way, monkeypatch):
    bind()
    monkeypatch.setattr(signals, "_LOOK_SECONDS", 0.0)

    def ask(context) -> None:
        if context.progress.iterations == 2:
            os.kill(os.getpid(), signal.SIGHUP) if way == "signal" else Path("run/evaluate").touch()

    train(num_iterations=6, evaluate=True, eval_interval=100, hooks=[SimpleNamespace(on_iteration_end=ask)])
    assert evaluated() == [3, 6]
    assert not Path("run/evaluate").exists()


def test_equal_runs_have_equal_evaluations_in_this_process_and_in_another():
    bind('create_environment.env_name = "CartPole-v1"\neval/create_environment.max_episode_steps = 40')
    options = {"num_iterations": 3, "num_checkpoints": 0, **EVERY_ITERATION, "eval_interval": 3, "epsilon_greedy": 0.5}
    here, there = (train(name, async_eval=name == "there", **options) for name in ("here", "there"))
    assert there.result.evaluation == here.result.evaluation
    assert (weights(there) == weights(here)).all()


def test_a_config_that_cannot_be_sent_is_refused_before_training():
    bind()
    constructor = OPTIONS["algorithm_ctor"]
    with pytest.raises(ConfigProblems, match=r"algorithm_ctor: cannot be sent .*async_eval=False"):
        make(algorithm_ctor=lambda **given: constructor(**given), async_eval=True, **EVERY_ITERATION)
