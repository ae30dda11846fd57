from __future__ import annotations

import pytest

from alfish.training.results import EvalResult
from alfish.training.stop_condition import Plateau, ReturnAtLeast, WallTime, remembers


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


@pytest.mark.parametrize("stopped_after", range(6))
def test_a_plateau_that_is_saved_and_loaded_stops_where_it_would_have(stopped_after):
    scores, stops = (1, 2, 2, 3, 3, 2), [False, False, False, False, False, True]
    first, second = Plateau(patience=2), Plateau(patience=2)
    before = [first(evaluation(score)) for score in scores[:stopped_after]]
    second.load_state_dict(first.state_dict())
    assert before + [second(evaluation(score)) for score in scores[stopped_after:]] == stops


@pytest.fixture
def now(monkeypatch):
    """The clock: a list with the time."""
    time = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: time[0])
    return time


def test_wall_time(now):
    limit = WallTime(seconds=60)
    now[0] = 159.9
    assert not limit(evaluation(0))
    now[0] = 160.0
    assert limit(evaluation(0))


def test_wall_time_counts_all_parts_of_a_run_and_nothing_between_them(now):
    limit = WallTime(seconds=60)
    now[0] = 140.0
    state = limit.state_dict()
    now[0] = 5.0  # after a reboot the clock begins anew
    limit = WallTime(seconds=60)
    now[0] = 10.0  # what it takes to start counts
    limit.load_state_dict(state)
    now[0] = 24.9
    assert not limit(evaluation(0))
    now[0] = 25.0
    assert limit(evaluation(0))


def test_a_condition_may_be_a_function():
    assert not remembers(lambda result: True)
    assert not remembers(ReturnAtLeast(1))
    assert remembers(Plateau())
