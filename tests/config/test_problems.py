from __future__ import annotations

import pytest

from alfish.config.problems import ConfigProblems, Place, Problem, nearest
from alfish.errors import ConfigError


def test_places_and_chains() -> None:
    outer = Place("a.gin", 1)
    inner = Place("c.gin", 3, included_by=Place("b.gin", 2, included_by=outer))
    assert str(inner) == "c.gin:3"
    assert inner.chain() == " (included by b.gin:2, included by a.gin:1)"
    assert outer.chain() == ""
    assert str(Place("command line")) == "command line"


def test_problem_text() -> None:
    assert str(Problem(("A.b", "A.c"), "clash")) == "A.b and A.c: clash"
    assert str(Problem((), "bad", Place("a.gin", 2), excerpt="    x")) == "a.gin:2: bad\n    x"


def test_problems_are_a_config_error() -> None:
    error = ConfigProblems([Problem(("A.b",), "one"), Problem((), "two", Place("a.gin", 2), excerpt="  x\n  ^")])
    assert isinstance(error, ConfigError)
    assert error.exit_code == 2
    assert str(error) == "2 problems in the configuration\n  A.b: one\n  a.gin:2: two\n    x\n    ^"
    assert str(ConfigProblems([Problem(("A.b",), "one")])) == "A.b: one"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("num_iteration", "num_iterations"), ("ADAM", "Adam"), ("xyzzy", None), ("iterations", "num_iterations")],
)
def test_nearest(name: str, expected: str | None) -> None:
    assert nearest(name, ["num_iterations", "Adam", "unroll_length"]) == expected
