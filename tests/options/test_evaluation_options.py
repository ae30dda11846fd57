"""Evaluation: when, on what, how good, and what follows from it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from tests.options.running import CARTPOLE, EVALUATE, PPO, refusal, train

PARTS = "import tests.options.parts\n"
# Every return is 3, in training and in evaluation.
ALWAYS_THREE = """
create_environment.env_name = "alfish/ConstantRewardProbe-v0"
ConstantRewardProbe.episode_length = 3
"""
AT_LEAST = "TrainerConfig.stop_condition = @ReturnAtLeast()\nReturnAtLeast.value = {}\n"


def evaluated(folder: str = "run", name: str = "iterations") -> list[float]:
    """A column of the table of evaluations."""
    with (Path(folder) / "eval" / "progress.csv").open(newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def test_evaluate() -> None:
    run = train(PPO, EVALUATE, evaluate=True)
    assert run.result.evaluation is not None
    assert evaluated() == [1, 2, 3, 4] == list(run.scalars("Metrics/AverageReturn", "eval"))
    run = train(PPO, EVALUATE, evaluate=False, root_dir="without")
    assert run.result.evaluation is None
    assert not Path("without/eval").exists()
    assert "no effect, since evaluate is False" in run.console


def test_evaluate_leaves_training_alone() -> None:
    runs = [train(PPO, CARTPOLE + EVALUATE, evaluate=evaluate, root_dir=str(evaluate)) for evaluate in (True, False)]
    assert torch.equal(runs[0].weights, runs[1].weights)
    assert runs[0].history == runs[1].history


def test_evaluate_uses_bindings_of_its_scope() -> None:
    scope = "eval/ConstantRewardProbe.reward = 7.0\n"
    run = train(PPO, ALWAYS_THREE + EVALUATE + scope)
    assert (run.result.mean_return, run.result.evaluation.mean_return) == (3.0, 21.0)


@pytest.mark.parametrize(("interval", "expected"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (100, [5])])
def test_eval_interval(interval: int, expected: list[int]) -> None:
    train(PPO, EVALUATE, num_iterations=5, eval_interval=interval)
    assert evaluated() == expected


@pytest.mark.parametrize(("number", "expected"), [(1, [6]), (2, [3, 6]), (6, [1, 2, 3, 4, 5, 6])])
def test_num_evals_over_iterations(number: int, expected: list[int]) -> None:
    train(PPO, EVALUATE, num_iterations=6, num_evals=number)
    assert evaluated() == expected


def test_num_evals_over_environment_steps() -> None:
    train(PPO, EVALUATE, num_iterations=0, num_env_steps=100, unroll_length=6, num_evals=2)  # 20 steps each
    assert evaluated(name="env_steps") == [60, 100]


@pytest.mark.parametrize(("number", "environments", "expected"), [(10, 1, 10), (5, 2, 6), (-1, 3, 3)])
def test_num_eval_episodes(number: int, environments: int, expected: int) -> None:
    run = train(PPO, EVALUATE, num_eval_episodes=number, num_eval_environments=environments, num_evals=1)
    assert len(run.result.evaluation.returns) == expected


def test_num_eval_episodes_takes_equally_many_of_each_environment() -> None:
    # Without quotas, environments with short episodes would give more of them.
    run = train(PPO, CARTPOLE + EVALUATE, num_eval_episodes=6, num_eval_environments=3, num_evals=1)
    per_environment = [
        train(PPO, CARTPOLE + EVALUATE, num_eval_episodes=2 * n, num_eval_environments=n, num_evals=1, root_dir=str(n))
        for n in (1, 2)
    ]
    lengths = run.result.evaluation.lengths
    assert per_environment[0].result.evaluation.lengths == lengths[:2]
    assert per_environment[1].result.evaluation.lengths == lengths[:4]


def test_num_eval_episodes_zero_is_refused() -> None:
    assert "num_eval_episodes: is 0; use evaluate = False" in refusal(PPO, EVALUATE, num_eval_episodes=0)


def test_num_eval_environments_are_not_those_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    from alfish.environments.sync import SyncEnvironment

    sizes: list[int] = []
    reset = SyncEnvironment.reset
    monkeypatch.setattr(
        SyncEnvironment, "reset", lambda env, seed=None: sizes.append(env.batch_size) or reset(env, seed)
    )
    train(PPO, EVALUATE, num_eval_environments=3, num_evals=1)
    assert sizes == [4, 3]


def test_async_eval_gives_the_returns_of_sync() -> None:
    sampling = {"epsilon_greedy": 0.5, "num_eval_episodes": 4, "num_evals": 1}
    here, there = (
        train(PPO, CARTPOLE + EVALUATE, async_eval=is_async, root_dir=str(is_async), **sampling)
        for is_async in (False, True)
    )
    assert there.result.evaluation == here.result.evaluation
    assert evaluated("True") == [4], "written against the step of the snapshot"
    assert evaluated("True", "Metrics/EvaluatorRestarts") == [0], "by a process"


def test_async_eval_does_not_hold_training_up_and_never_loses_the_newest() -> None:
    played: list[int | None] = []

    def look(trainer) -> None:
        result = trainer.result.evaluation
        played.append(None if result is None else result.iteration)

    train(PPO, EVALUATE, async_eval=True, num_iterations=30, each=look)
    assert played[0] is None, "the first iteration was over before its evaluation"
    assert evaluated()[-1] == 30
    assert evaluated() == sorted(set(evaluated()))


def test_eval_timeout() -> None:
    run = train(PPO, EVALUATE, async_eval=True, eval_timeout=0.01)
    assert run.result.stopped_by == "budget"
    assert run.result.evaluation is None
    assert "TrainerConfig.eval_timeout" in run.console, "whichever is noticed first: the start takes longer, or the end"


def test_epsilon_greedy() -> None:
    # One observation only, so that the mode of the policy is one action, +1 or -1.
    probe = 'create_environment.env_name = "alfish/ActionRewardProbe-v0"\nAdam.lr = 0.0\n'
    by_mode, by_sample, by_both = (
        train(PPO, probe + EVALUATE, epsilon_greedy=epsilon, num_eval_episodes=400, num_evals=1, root_dir=f"{epsilon}")
        for epsilon in (0.0, 1.0, 0.5)
    )
    mode = by_mode.result.evaluation.returns[0]
    assert set(by_mode.result.evaluation.returns) == {mode}
    sampled = by_sample.result.evaluation.returns.count(-mode) / 400
    assert 0.3 < sampled < 0.6
    assert by_both.result.evaluation.returns.count(-mode) / 400 == pytest.approx(sampled / 2, abs=0.08)
    assert torch.equal(by_mode.weights, by_sample.weights), "training does not know of it"


def test_evaluate_upon_training_success() -> None:
    text = ALWAYS_THREE + EVALUATE + AT_LEAST.format(3.0)
    at_once = train(PPO, text, evaluate_upon_training_success=True, eval_interval=100, num_iterations=9)
    assert (at_once.result.iterations, at_once.result.stopped_by) == (1, "ReturnAtLeast")
    assert at_once.checkpoints == [1], "what met the condition is saved"
    text = ALWAYS_THREE + EVALUATE + AT_LEAST.format(3.5)
    train(PPO, text, evaluate_upon_training_success=True, eval_interval=100, num_iterations=9, root_dir="never")
    assert evaluated("never") == [9]


def test_evaluate_upon_training_success_needs_a_stop_condition() -> None:
    assert "needs evaluate = True and a stop_condition" in refusal(PPO, evaluate_upon_training_success=True)


def test_stop_condition() -> None:
    text = ALWAYS_THREE + EVALUATE + AT_LEAST.format(3.0)
    run = train(PPO, text, eval_interval=3, num_iterations=9)
    assert (run.result.iterations, run.result.stopped_by) == (3, "ReturnAtLeast")
    assert run.checkpoints == [3]


def test_stop_condition_sees_the_current_and_the_best_score() -> None:
    # Scores are -1, 0, -1, -2, ...
    score = f"{PARTS}TrainerConfig.score_fn = @second_is_best\n{EVALUATE}"
    plateau = f"{score}TrainerConfig.stop_condition = @Plateau()\nPlateau.patience = 2\n"
    assert train(PPO, plateau, num_iterations=9).result.iterations == 4
    best = f"{score}{AT_LEAST.format(0.0)}ReturnAtLeast.of = 'best'\n"
    assert train(PPO, best, num_iterations=9, root_dir="best").result.iterations == 2


def test_stop_condition_wall_time() -> None:
    text = f"{EVALUATE}TrainerConfig.stop_condition = @WallTime()\nWallTime.seconds = 1e-6\n"
    assert train(PPO, text, num_iterations=9).result.stopped_by == "WallTime"


def test_stop_condition_needs_evaluations() -> None:
    assert "it needs evaluate = True" in refusal(PPO, AT_LEAST.format(3.0))


def test_score_fn() -> None:
    run = train(PPO, f"{PARTS}{EVALUATE}TrainerConfig.score_fn = @sooner_is_better\n")
    assert evaluated(name="Metrics/Score") == [9.0, 8.0, 7.0, 6.0]
    assert (run.result.evaluation.score, run.result.best_score) == (6.0, 9.0)
    assert run.checkpoints == [1, 4], "the first is the best"


def test_score_fn_none_is_the_mean_return() -> None:
    assert train(PPO, ALWAYS_THREE + EVALUATE).result.best_score == 3.0
