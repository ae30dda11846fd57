from __future__ import annotations

import math

from alfish.training.results import EvalResult, SupervisedEvalResult, metrics_text


def result(*returns: float, best: float = float("-inf")) -> EvalResult:
    return EvalResult(returns, (10, 20), iteration=3, env_steps=300, best_score=best)


def test_mean_and_standard_deviation_over_all_episodes():
    evaluation = result(1.0, 3.0)
    assert (evaluation.mean_return, evaluation.std_return, evaluation.mean_length) == (2.0, 1.0, 15.0)


def test_the_score_is_the_mean_return_unless_told_otherwise():
    assert result(1.0, 3.0).scored(None).score == 2.0
    assert result(1.0, 3.0).scored(lambda evaluation: min(evaluation.returns)).score == 1.0


def test_the_best_score_grows_and_never_shrinks():
    assert result(1.0, 3.0).scored(None).best_score == 2.0
    assert result(1.0, 3.0, best=5.0).scored(None).best_score == 5.0
    assert result(1.0, 3.0, best=1.0).scored(None).best_score == 2.0


def test_a_score_that_is_no_number_does_not_become_the_best():
    scored = result(1.0, best=0.5).scored(lambda evaluation: math.nan)
    assert math.isnan(scored.score)
    assert scored.best_score == 0.5


def test_it_tells_itself():
    evaluation = result(1.0, 3.0)
    assert f"{evaluation.moment}: {evaluation}" == "at 300 steps: mean return 2.00 +- 1.00"
    assert evaluation.closing_words() == "mean return 2.0 +- 1.0 over 2 episodes"
    assert evaluation.facts()["episodes"] == 2
    assert evaluation.summaries()["AverageEpisodeLength"] == 15.0


SUPERVISED = SupervisedEvalResult({"accuracy": 0.98712, "loss": 0.25}, iteration=3, best_score=0.5, score=0.98712)


def test_the_score_on_data_is_what_the_algorithm_says_unless_told_otherwise():
    assert SUPERVISED.scored(None).score == SUPERVISED.scored(None).best_score == 0.98712
    other = SUPERVISED.scored(lambda evaluation: -evaluation.metrics["loss"])
    assert (other.score, other.best_score) == (-0.25, 0.5)
    assert SUPERVISED.scored(lambda evaluation: math.nan).best_score == 0.5


def test_an_evaluation_on_data_tells_itself():
    assert f"{SUPERVISED.moment}: {SUPERVISED}" == "after epoch 3: accuracy 0.9871, loss 0.25"
    assert SUPERVISED.closing_words() == "accuracy 0.9871, loss 0.25"
    assert SUPERVISED.facts() == {"metrics": {"accuracy": 0.98712, "loss": 0.25}, "iteration": 3}
    assert SUPERVISED.summaries() == SUPERVISED.metrics
    assert metrics_text({"calibration_error": 1e-5}) == "calibration error 1e-05"
