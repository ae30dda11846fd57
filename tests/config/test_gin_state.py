from __future__ import annotations

from collections.abc import Callable

import gin
import pytest

from alfish.config import gin_state
from alfish.config.record import Config
from alfish.config.values import Macro, Reference


def test_bound_values_are_symbols(write: Callable[..., str], load: Callable[..., Config]) -> None:
    load(write("N = 3\nPlan.extra = [@a/Learner, @Stepper(), %N]\nx/Plan.num_rounds = 2\n"))
    plan = "tests.config.sample.parts.Plan"
    assert gin_state.bound_values() == {
        ("N", "gin.macro", "value"): 3,
        ("", plan, "extra"): [Reference("a", "Learner", False), Reference("", "Stepper", True), Macro("N")],
        ("x", plan, "num_rounds"): 2,
    }


def test_full_names_are_what_gin_uses(write: Callable[..., str], load: Callable[..., Config]) -> None:
    loaded = load(write("N = 3\nPlan.num_rounds = %N\nx/Stepper.lr = 1.0\na/M = 1\n"))
    assert {gin_state.full_name(binding) for binding in loaded.bindings} == set(gin_state.bound_values())


def test_used_values_hold_calls_and_arguments(load: Callable[..., Config]) -> None:
    load([], "Stepper.lr=0.5")
    gin.get_configurable("Stepper")()
    stepper = "tests.config.sample.parts.Stepper"
    assert gin_state.used_values() == {("", stepper, ""): "", ("", stepper, "lr"): 0.5}


def test_clear_forgets_everything(load: Callable[..., Config]) -> None:
    load([], "Stepper.lr=0.5")
    gin_state.add_worker_values({("", "x", "y"): "1"})
    gin_state.clear()
    assert (gin_state.current(), gin_state.worker_values(), gin_state.bound_values()) == (None, {}, {})
    assert not gin.config_is_locked()


def _clear_and_fail() -> None:
    with gin_state.isolated():
        gin_state.clear()
        raise KeyError


def test_isolated_restores_after_an_error(load: Callable[..., Config]) -> None:
    loaded = load([], "Stepper.lr=0.5")
    gin.get_configurable("Stepper")()
    used = gin_state.used_values()
    with pytest.raises(KeyError):
        _clear_and_fail()
    assert gin_state.current() is loaded
    assert gin_state.used_values() == used
    assert gin.config_is_locked()
