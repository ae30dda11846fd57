from __future__ import annotations

import math

from alfish.training.results import EvalResult


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
