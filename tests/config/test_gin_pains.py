"""What hurts in plain gin, and what alfish does about it."""

from __future__ import annotations

import ast
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gin
import pytest

import alfish
from alfish import config
from alfish.config.catalog import PACKAGE_ROOT
from alfish.config.record import Config
from alfish.config.scan import scan

Write = Callable[..., str]
Load = Callable[..., Config]
Problems = Callable[..., list[str]]


def _call(name: str, scope: str = "") -> object:
    """Calls a configurable of the sample as gin would, in a scope."""
    with gin.config_scope(scope or None):
        return gin.get_configurable(name)()


def test_missing_file_needs_no_importlib_util(folder: Path) -> None:
    """In a fresh interpreter plain gin answers a missing file with an AttributeError."""
    code = "from alfish import config; config.load(['nope.gin'])"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT.parent)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert "'nope.gin': no such config" in result.stderr
    assert "AttributeError" not in result.stderr


def test_search_path_makes_no_noise(
    write: Write, load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write("Plan.num_rounds = 7", "elsewhere/b.gin")
    monkeypatch.setenv("ALFISH_CONFIG_PATH", "nowhere:elsewhere")
    assert load(write("include 'b.gin'")).where("Plan.num_rounds") == "b.gin:1"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_integral_float_becomes_int_with_a_note(write: Write, load: Load) -> None:
    loaded = load(write("Plan.num_rounds = 1e6\nPlan.layers = (1e1, 2)\n"))
    plan = _call("Plan")
    assert plan.num_rounds == 1_000_000
    assert type(plan.num_rounds) is int
    assert plan.layers == (10, 2)
    assert type(plan.layers[0]) is int
    assert loaded.notes == (
        "a.gin:1: Plan.num_rounds: 1000000.0 taken as 1000000",
        "a.gin:2: Plan.layers: (10.0, 2) taken as (10, 2)",
    )


def test_integral_float_through_a_macro(write: Write, load: Load) -> None:
    load(write("N = 1e3\nPlan.num_rounds = %N\nPlan.layers = (%N, 1)\n"))
    plan = _call("Plan")
    assert type(plan.num_rounds) is int
    assert plan.num_rounds == 1000
    assert [type(size) for size in plan.layers] == [int, int]  # type: ignore[attr-defined]


def test_wrong_type_through_a_macro_names_both_places(write: Write, problems: Problems) -> None:
    assert problems(write("N = 'ten'\nPlan.num_rounds = %N\n")) == [
        "a.gin:2: Plan.num_rounds: expects int, got str 'ten' (%N is set at a.gin:1)."
    ]


def test_int_for_float_is_fine_and_stays(write: Write, load: Load) -> None:
    assert load(write("Plan.rate = 1")).notes == ()
    assert _call("Plan").rate == 1  # type: ignore[attr-defined]


def test_binding_that_nothing_uses_is_reported(write: Write, load: Load) -> None:
    load(write("Plan.num_rounds = 3\nactr/Stepper.lr = 1.0\n"))
    _call("Plan")
    _call("Stepper", "actor")
    assert config.inoperative_lines() == [
        "a.gin:2: actr/Stepper.lr was never used (Stepper was never built in scope 'actr', only in 'actor')"
    ]


def test_unquoted_string_on_the_command_line(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="alfish"):
        load([], "make_world.name=ALE/Pong-v5")
    assert _call("make_world") == "ALE/Pong-v53"
    assert "command line: make_world.name: ALE/Pong-v5 read as the string 'ALE/Pong-v5'" in caplog.messages


def test_several_bindings_in_one_parameter(load: Load) -> None:
    load([], "make_world.name='a, b'\nmake_world.size=5")
    assert _call("make_world") == "a, b5"


def test_arithmetic_and_indexing_through_helpers(write: Write) -> None:
    text = """
    SIZES = (3, 4, 5)
    last/item.sequence = %SIZES
    last/item.index = -1
    total/multiply.a = @last/item()
    total/multiply.b = 2
    use/add.a = @total/multiply()
    """
    config.load([write(text)], roots=[PACKAGE_ROOT / "config"])
    assert _call("add", "use") == 10


def test_classes_and_instances_pickle(load: Load) -> None:
    load([], "Stepper.lr=0.5")
    stepper_class = gin.get_configurable("Stepper")
    assert pickle.loads(pickle.dumps(stepper_class)) is stepper_class  # noqa: S301
    assert pickle.loads(pickle.dumps(stepper_class())).lr == 0.5  # noqa: S301


def test_infinity_survives_writing_and_reading(write: Write, load: Load) -> None:
    first = load(write("Plan.limit = 1e999\nPlan.extra = (-1e999, {'a': @Stepper, 'b': [%gin.REQUIRED]})"))
    assert "inf" not in gin.config_str()
    again = load(write(first.text, "flat.gin"))
    assert again.digest == first.digest
    assert _call("Plan").limit == float("inf")  # type: ignore[attr-defined]


def test_decorator_keeps_type_and_signature() -> None:
    from tests.config.sample.parts import Plan, Stepper, make_world

    assert isinstance(Stepper, type)
    assert Stepper.__name__ == "Stepper"
    assert isinstance(Stepper(), Stepper)
    assert Plan(num_rounds=3) == Plan(num_rounds=3)
    assert make_world.__name__ == "make_world"
    assert make_world(size=1) == "flat1"


def test_explicit_arguments_win_over_bindings(load: Load) -> None:
    load([], "make_world.size=5")
    assert gin.get_configurable("make_world")(size=1) == "flat1"


def test_subclass_without_constructor_takes_base_bindings_and_its_own(load: Load) -> None:
    load([], "Learner.size=3")
    assert _call("QuickLearner").size == 3  # type: ignore[attr-defined]
    load([], "Learner.size=3", "QuickLearner.size=4")
    assert _call("QuickLearner").size == 4
    assert _call("Learner").size == 3


def test_base_bindings_reach_through_super(load: Load) -> None:
    load([], "Learner.size=3", "SteadyLearner.patience=2.0")
    learner = _call("SteadyLearner")
    assert (learner.size, learner.patience) == (3, 2.0)  # type: ignore[attr-defined]


def test_scopes(write: Write, load: Load) -> None:
    text = "Stepper.lr = 1.0\nactor/Stepper.lr = 2.0\nLearner.stepper = @actor/Stepper()\n"
    load(write(text))
    assert _call("Learner").stepper.lr == 2.0
    assert _call("Stepper").lr == 1.0


def test_unscoped_and_qualified_names_are_one_key(write: Write, load: Load) -> None:
    loaded = load(write("tests.config.sample.parts.Plan.num_rounds = 1\nparts.Plan.quiet = True"), "Plan.num_rounds=2")
    assert [binding.text for binding in loaded.bindings] == ["Plan.quiet = True", "Plan.num_rounds = 2"]


def test_locked_after_loading_but_late_modules_may_register(load: Load) -> None:
    load([], "Plan.num_rounds=3")
    with pytest.raises(RuntimeError, match="locked"):
        gin.bind_parameter("Plan.num_rounds", 4)

    @alfish.configurable
    def a_late_one(x: int = 1) -> int:
        return x

    assert a_late_one() == 1
    assert gin.config_is_locked()


def test_values_from_python_win_and_are_checked(load: Load) -> None:
    loaded = load([], "Plan.num_rounds=3", overrides={"Plan.num_rounds": 4, "actor/Stepper.lr": 0.5})
    assert _call("Plan").num_rounds == 4
    assert _call("Stepper", "actor").lr == 0.5
    assert loaded.where("Plan.num_rounds") == "Python"
    with pytest.raises(config.ConfigProblems, match=r"^Python: Plan.num_rounds: expects int, got str 'ten'\.$"):
        load([], overrides={"Plan.num_rounds": "ten"})


def test_values_from_python_that_cannot_be_written_are_refused(load: Load) -> None:
    with pytest.raises(
        config.ConfigProblems, match=r"^Python: Plan.extra: object values cannot be written in a config"
    ):
        load([], overrides={"Plan.extra": object()})


def test_isolated_restores(load: Load) -> None:
    before = load([], "Plan.num_rounds=3")
    with config.isolated():
        load([], "Plan.num_rounds=4")
        assert _call("Plan").num_rounds == 4  # type: ignore[attr-defined]
    assert config.current() is before
    assert _call("Plan").num_rounds == 3
    assert gin.config_is_locked()


def test_state_does_not_leak_into_this_test() -> None:
    assert config.current() is None
    assert gin.config_str() == ""


def test_all_names_of_alfish_are_unique() -> None:
    doubles = {name: entries for name, entries in scan().by_name.items() if len(entries) > 1}
    assert doubles == {}


def test_names_that_differ_only_in_case_or_module_do_not_exist() -> None:
    names = [entry.name.lower() for entry in scan()]
    assert len(names) == len(set(names))


def _decorated(tree: ast.AST) -> list[ast.ClassDef | ast.FunctionDef]:
    definitions = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [node for node in definitions if any("configurable" in ast.unparse(d) for d in node.decorator_list)]


def test_no_method_is_configurable() -> None:
    """A call through gin costs 10 us: constructors only."""
    for path in PACKAGE_ROOT.rglob("*.py"):
        tree = ast.parse(path.read_bytes())
        top = set(map(id, tree.body))
        assert not [f"{path}:{node.lineno}" for node in _decorated(tree) if id(node) not in top]


def test_every_configurable_of_alfish_is_closed_and_documented() -> None:
    for entry in scan():
        place = f"{entry.path}:{entry.line}: {entry.name}"
        assert not entry.is_open, f"{place} takes arguments that cannot be checked"
        missing = [parameter.name for parameter in entry.parameters if not parameter.doc]
        assert not missing, f"{place}: the docstring's Args lack {missing}"


def test_import_lines_of_alf_are_understood(write: Write, load: Load) -> None:
    loaded = load(write("import alf.algorithms.ppo_algorithm\nfrom alf.networks import x\nPlan.num_rounds = 1"))
    assert loaded.imports == ()
    assert loaded.notes == (
        "a.gin:1: import alf.algorithms.ppo_algorithm: not needed, alfish registers its own names",
        "a.gin:2: from alf.networks import x: not needed, alfish registers its own names",
    )


def test_dotted_names_of_imported_modules(write: Write, load: Load) -> None:
    """What gin calls dynamic registration, without its restrictions."""
    text = """
    from __gin__ import dynamic_registration
    import fractions
    from fractions import Fraction as Ratio
    Plan.extra = @fractions.Fraction()
    fractions.Fraction.numerator = 3
    fractions.Fraction.denominator = 4
    """
    load(write(text))
    assert _call("Plan").extra == 0.75  # type: ignore[attr-defined]


def test_command_line_overrides_are_logged(write: Write, load: Load) -> None:
    loaded = load(write("Plan.num_rounds = 3"), "Plan.num_rounds=4")
    assert loaded.notes == ("command line: Plan.num_rounds = 4, overriding 3 (a.gin:1)",)


def test_ambiguous_names_are_explained(
    write: Write, problems: Problems, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    source = "import alfish\n\n@alfish.configurable\ndef make_world(x: int = 1) -> int:\n    return x\n"
    write(source, "other_worlds.py")
    assert problems(write("import other_worlds\nmake_world.size = 1")) == [
        "a.gin:2: make_world: there are several of that name. "
        "Write tests.config.sample.parts.make_world or other_worlds.make_world"
    ]
