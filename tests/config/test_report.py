from __future__ import annotations

from collections.abc import Callable

import gin
import pytest

from alfish import config
from alfish.config.problems import Place, Problem
from alfish.config.record import Config
from alfish.config.report import read_operative, read_origins

Load = Callable[..., Config]
Write = Callable[..., str]


def test_operative_text_has_values_defaults_and_origins(write: Write, load: Load) -> None:
    load(write("LR = 0.25\nactor/Stepper.lr = %LR\nLearner.stepper = @actor/Stepper()\n"), "Learner.size=9")
    gin.get_configurable("Learner")()
    assert config.operative_text() == (
        "LR = 0.25  # a.gin:1\n\n"
        "Learner.size = 9  # command line\n"
        "Learner.stepper = @actor/Stepper()  # a.gin:3\n\n"
        "actor/Stepper.lr = %LR  # a.gin:2\n"
    )
    gin.get_configurable("make_world")()
    assert "make_world.name = 'flat'  # default\n" in config.operative_text()


def test_operative_text_can_be_loaded(write: Write, load: Load) -> None:
    load(write("Plan.limit = 1e999\nPlan.extra = {'a': (1, @Stepper)}\n"))
    plan = gin.get_configurable("Plan")()
    text = config.operative_text()
    load(write(text, "operative.gin"))
    assert gin.get_configurable("Plan")() == plan


def test_operative_text_can_be_read_without_loading_it(write: Write, load: Load) -> None:
    load(write("LR = 0.25\nStepper.lr = %LR\nmake_world.name = 'a = b  # c'\nPlan.extra = {'a': (1, @Stepper)}\n"))
    for name in ("Plan", "Stepper", "make_world"):
        gin.get_configurable(name)()
    values = read_operative(config.operative_text())
    assert (values["LR"], values["Stepper.lr"], values["make_world.name"]) == ("0.25", "%LR", "'a = b  # c'")
    assert values["Plan.extra"] == "{'a': (1, @Stepper)}"
    assert read_operative("# Learner.rule: an object made in Python  # default\n\n") == {}
    origins = read_origins(config.operative_text())
    assert (origins["LR"], origins["Stepper.lr"], origins["make_world.name"]) == ("a.gin:1", "a.gin:2", "a.gin:3")


def test_origin_is_the_innermost_binding(write: Write, load: Load) -> None:
    load(write("Stepper.lr = 0.1\na/Stepper.lr = 0.2\n"))
    with gin.config_scope("a/b"):
        gin.get_configurable("Stepper")()
    assert config.operative_text() == "a/b/Stepper.lr = 0.2  # a.gin:2\n"


def test_reasons(write: Write, load: Load) -> None:
    text = """
UNUSED = 1
Learner.size = 1
Stepper.lr = 0.1
a/Stepper.lr = 0.2
make_world.name = 'x'
Pupil.teacher = 'Ada'
"""
    load(write(text))
    gin.get_configurable("make_world")(name="y")
    with gin.config_scope("a"):
        gin.get_configurable("Stepper")()
    assert config.inoperative_lines() == [
        "a.gin:2: UNUSED was never used (no value that was used refers to it)",
        "a.gin:3: Learner.size was never used (Learner was never built)",
        "a.gin:4: Stepper.lr was never used (bindings in inner scopes override it)",
        "a.gin:6: make_world.name was never used (the code that builds it gives name itself)",
        "a.gin:7: Pupil.teacher was never used (Pupil was never built)",
    ]


def test_an_outer_binding_is_used_by_an_inner_call(write: Write, load: Load) -> None:
    load(write("a/Stepper.lr = 0.2\nmake_world.size = 1\n"))
    with gin.config_scope("a/b"):
        gin.get_configurable("Stepper")()
        gin.get_configurable("make_world")()
    assert config.inoperative_lines() == []


def test_scope_names_are_whole_words(write: Write, load: Load) -> None:
    load(write("a/Stepper.lr = 0.2\n"))
    with gin.config_scope("ab"):
        gin.get_configurable("Stepper")()
    assert len(config.inoperative_lines()) == 1


def test_strict(write: Write, load: Load, caplog: pytest.LogCaptureFixture) -> None:
    load(write("Learner.size = 1"))
    line = "a.gin:1: Learner.size was never used (Learner was never built)"
    with pytest.raises(config.ConfigProblems, match=r"^a.gin:1: Learner.size was never used") as caught:
        config.report_inoperative(strict=True)
    assert caught.value.exit_code == 2
    assert config.report_inoperative() == [line]
    gin.get_configurable("Learner")()
    assert config.report_inoperative(strict=True) == []


def test_problems_get_their_places(write: Write, load: Load) -> None:
    loaded = load(write("Plan.rate = 0.5"), "Plan.quiet=True")
    text = config.format_problems(
        [
            Problem(("Plan.rate",), "is odd"),
            Problem(("Plan.rate", "Plan.quiet", "Plan.mode"), "exclude each other"),
            Problem(("Plan.mode",), "is odd"),
            Problem(("Plan.rate",), "is bad", Place("b.gin", 7)),
        ],
        loaded,
    )
    assert text == (
        "4 problems in the configuration\n"
        "  a.gin:1: Plan.rate: is odd\n"
        "  Plan.rate (a.gin:1), Plan.quiet (command line) and Plan.mode (default): exclude each other\n"
        "  Plan.mode: is odd\n"
        "  b.gin:7: Plan.rate: is bad"
    )
    assert config.format_problems([Problem(("Plan.rate",), "is odd")], None) == "Plan.rate: is odd"


def test_without_a_config_there_is_nothing_to_report() -> None:
    assert config.inoperative_lines() == []
    assert config.operative_text() == ""
