from __future__ import annotations

import pytest

from alfish.training.results import EvalResult
from alfish.training.stop_condition import Plateau, ReturnAtLeast, WallTime


def evaluation(score: float, best: float | None = None) -> EvalResult:
    return EvalResult((score,), (1,), 1, 1, best_score=score if best is None else best, score=score)


@pytest.mark.parametrize(
    ("of", "score", "best", "stops"),
    [
        ("current", 474.9, 500.0, False),
        ("current", 475.0, 475.0, True),
        ("best", 100.0, 475.0, True),
        ("best", 100.0, 474.9, False),
    ],
)
def test_return_at_least_looks_at_the_current_or_the_best_score(of, score, best, stops):
    assert ReturnAtLeast(475, of)(evaluation(score, best)) is stops


def test_return_at_least_looks_at_the_current_score_by_default():
    assert not ReturnAtLeast(2)(evaluation(1, best=3))


def test_plateau_stops_after_as_many_evaluations_without_growth():
    plateau = Plateau(patience=2)
    assert [plateau(evaluation(score)) for score in (1, 2, 2, 3, 3, 2)] == [False, False, False, False, False, True]


def test_growth_below_the_smallest_that_counts_does_not():
    plateau = Plateau(patience=2, min_delta=1.0)
    assert [plateau(evaluation(score)) for score in (0, 0.9, 1.5, 1.6, 2.5)] == [False, False, False, False, True]


def test_wall_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    limit = WallTime(seconds=60)
    now[0] = 159.9
    assert not limit(evaluation(0))
    now[0] = 160.0
    assert limit(evaluation(0))
