"""Checks of values given in Python. Those of files are in test_bad_input.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from alfish.config.check import argument_kinds, check_arguments, fit_arguments
from alfish.config.kinds import Made, Scalar
from alfish.config.record import Config
from tests.config.sample.learners import Learner, QuickLearner, make_pair
from tests.config.sample.parts import Plan, Stepper


def test_the_words_are_those_for_a_file() -> None:
    found = check_arguments(Plan, {"num_rounds": "ten", "rate": 2, "title": "fine", "layers": [1, "x"]})
    assert [str(problem) for problem in found] == [
        "Plan.num_rounds: expects int, got str 'ten'.",
        "Plan.rate: must be in (0, 1], got 2.",
        "Plan.layers: item 1 expects int, got str 'x'.",
    ]


def test_objects() -> None:
    assert check_arguments(Learner, {"size": 3, "stepper": Stepper()}) == []
    assert check_arguments(QuickLearner, {"stepper": None}) == []
    (problem,) = check_arguments(QuickLearner, {"stepper": "fast"})
    assert str(problem) == "QuickLearner.stepper: expects a Stepper (@Name()) or None, got str 'fast'."
    assert check_arguments(make_pair, {"learner_ctor": Learner}) == []
    assert len(check_arguments(make_pair, {"learner_ctor": 3})) == 1


def test_fitted_arguments() -> None:
    fitted = fit_arguments(Plan, {"num_rounds": 1e3, "rate": 1, "extra": object})
    assert fitted == {"num_rounds": 1000, "rate": 1, "extra": object}
    assert type(fitted["num_rounds"]) is int


def test_kinds_come_from_the_constructor() -> None:
    kinds = argument_kinds(Learner)
    assert kinds["size"] == Scalar(int)
    assert Made("Stepper", type=Stepper) in getattr(kinds["stepper"], "options", ())


def test_macros_of_macros_and_macros_in_circles(
    write: Callable[..., str], load: Callable[..., Config], problems: Callable[..., list[str]]
) -> None:
    load(write("A = %B\nB = 3\nPlan.num_rounds = %A\n"))
    assert problems(write("A = %B\nB = 'x'\nPlan.num_rounds = %A\n")) == [
        "a.gin:3: Plan.num_rounds: expects int, got str 'x' (%A is set at a.gin:1)."
    ]
    assert problems(write("A = %B\nB = (1, %A)\nPlan.extra = %A\n")) == [
        "a.gin:1: A: is defined by itself: A → B → A",
        "a.gin:2: B: is defined by itself: B → A → B",
    ]


@pytest.mark.parametrize("text", ["RATE = 'x'\n", "a/RATE = 0.5\nPlan.rate = %a/RATE\n"])
def test_macros_that_are_fine(text: str, write: Callable[..., str], load: Callable[..., Config]) -> None:
    assert load(write(text)).warnings == ()
