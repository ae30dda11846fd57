"""Every kind of bad input and what alfish answers. The messages are part of the promise."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from alfish.config.record import Config

Write = Callable[..., str]
Load = Callable[..., Config]
Problems = Callable[..., list[str]]

ONE_LINERS = {
    "unknown name": ("Plann.num_rounds = 3", "a.gin:1: Plann: no such name. Did you mean Plan?"),
    "unknown name, nothing near": (
        "Xyzzy.n = 3",
        "a.gin:1: Xyzzy: no such name. Is its module imported? `alfish list` shows what there is.",
    ),
    "unknown option": (
        "Plan.num_round = 3",
        "a.gin:1: Plan.num_round: no such option. Did you mean num_rounds (int, default 1000)?",
    ),
    "unknown option, nothing near": (
        "Stepper.xyzzy = 3",
        "a.gin:1: Stepper.xyzzy: no such option. It has: lr.",
    ),
    "string for int": ("Plan.num_rounds = 'ten'", "a.gin:1: Plan.num_rounds: expects int, got str 'ten'."),
    "fraction for int": ("Plan.num_rounds = 1.5", "a.gin:1: Plan.num_rounds: expects int, got float 1.5."),
    "bool for int": ("Plan.num_rounds = True", "a.gin:1: Plan.num_rounds: expects int, got bool True."),
    "none for int": ("Plan.num_rounds = None", "a.gin:1: Plan.num_rounds: expects int, got None."),
    "int for bool": ("Plan.quiet = 1", "a.gin:1: Plan.quiet: expects bool, got int 1; write True."),
    "int for string": ("Plan.title = 3", "a.gin:1: Plan.title: expects str, got int 3."),
    "int for tuple": (
        "Plan.layers = 256",
        "a.gin:1: Plan.layers: expects a tuple of int, got int 256. Write (256,) for one item.",
    ),
    "string in tuple": ("Plan.layers = (4, 'x')", "a.gin:1: Plan.layers: item 1 expects int, got str 'x'."),
    "choice": ("Plan.mode = 'fats'", "a.gin:1: Plan.mode: expects 'fast' or 'slow', got str 'fats'."),
    "range": ("Plan.rate = 0", "a.gin:1: Plan.rate: must be in (0, 1], got 0."),
    "range, optional": ("Plan.limit = -1.0", "a.gin:1: Plan.limit: must be >= 0, got -1.0."),
    "range through an alias": (
        "Pupil.teacher = 'Ada'\nPupil.grade = 6",
        "a.gin:2: Pupil.grade: must be in [1, 5], got 6.",
    ),
    "number for object": (
        "Learner.stepper = 3",
        "a.gin:1: Learner.stepper: expects a Stepper (@Name()) or None, got int 3.",
    ),
    "reference for int": (
        "Plan.num_rounds = @make_world",
        "a.gin:1: Plan.num_rounds: expects int, got the reference @make_world itself. "
        "Write @make_world() for what it makes.",
    ),
    "class for object": (
        "Learner.stepper = @Stepper",
        "a.gin:1: Learner.stepper: expects a Stepper (@Name()) or None, got the reference @Stepper itself. "
        "Write @Stepper() for what it makes.",
    ),
    "object for constructor": (
        "Plan.learner_ctor = @Learner()",
        "a.gin:1: Plan.learner_ctor: takes a constructor, not what it makes. Write @Learner without ().",
    ),
    "bare word": (
        "Plan.title = CartPole-v1  # note",
        "a.gin:1: strings need quotes: 'CartPole-v1'\n    Plan.title = CartPole-v1  # note\n                 ^",
    ),
    "infinity": (
        "Plan.rate = inf",
        "a.gin:1: inf is not a gin value; infinity is written 1e999\n    Plan.rate = inf\n                ^",
    ),
    "missing value": ("Plan.title =", "a.gin:1: missing value\n    Plan.title =\n                ^"),
    "unclosed quote": (
        "Plan.title = 'abc",
        "a.gin:1: unbalanced quote in Plan.title = 'abc\n    Plan.title = 'abc\n                 ^",
    ),
    "unclosed bracket": (
        "Plan.layers = (1,\n  2\n",
        "a.gin:1: unclosed '('\n    Plan.layers = (1,\n                  ^",
    ),
    "no equals sign": (
        "Plan.num_rounds 3",
        "a.gin:1: expected '=' or ':' before '3'\n    Plan.num_rounds 3\n                    ^",
    ),
    "two in a line": (
        "Plan.quiet = True; Plan.num_rounds = 3",
        "a.gin:1: one binding per line: put the second one on its own line, or in its own --gin_param\n"
        "    Plan.quiet = True; Plan.num_rounds = 3\n                     ^",
    ),
    "arithmetic": (
        "Plan.num_rounds = 3*4",
        "a.gin:1: unexpected '*' after the value; gin has no expressions, see `alfish describe multiply` and `item`\n"
        "    Plan.num_rounds = 3*4\n                       ^",
    ),
    "call": (
        "Plan.extra = dict(x=1)",
        "a.gin:1: dict(x=1): calls are not values. Write a literal ({'x': 1}), or @dict() for a configurable\n"
        "    Plan.extra = dict(x=1)\n                 ^",
    ),
    "reference with arguments": (
        "Plan.extra = @Stepper(lr=1)",
        "a.gin:1: a reference takes no arguments here; bind them on their own line: Name.argument = value\n"
        "    Plan.extra = @Stepper(lr=1)\n                          ^",
    ),
    "undefined macro": ("Plan.rate = %RATE", "a.gin:1: Plan.rate: %RATE is not defined. Add a line: RATE = ..."),
    "misspelt macro": (
        "RATE = 0.1\nPlan.rate = %RATES",
        "a.gin:2: Plan.rate: %RATES is not defined. Did you mean %RATE?",
    ),
    "unknown reference": (
        "Plan.learner_ctor = @Lerner",
        "a.gin:1: @Lerner: no such name. Did you mean @Learner? In Plan.learner_ctor = @Lerner",
    ),
    "callable of a module that is not imported": (
        "Plan.extra = @other.make_worlds",
        "a.gin:1: @other.make_worlds: no such name. Did you mean @make_world? "
        "For any other callable add a line: import other. In Plan.extra = @other.make_worlds",
    ),
    "unknown module": (
        "import no_such_module_at_all",
        "a.gin:1: import no_such_module_at_all: no module of that name. Is it installed, or on PYTHONPATH?",
    ),
    "module of an extra": (
        "import envpool.nope",
        "a.gin:1: import envpool.nope: no module of that name. Install it: pip install 'alfish[envpool]'",
    ),
    "required value missing": (
        "Plan.learner_ctor = @Pupil",
        "a.gin:1: Pupil.teacher: has to be set. Add a line: Pupil.teacher = ...",
    ),
    "required by the file": (
        "Plan.title = %gin.REQUIRED",
        "a.gin:1: Plan.title: must be set by the config that uses this one; it is %gin.REQUIRED here",
    ),
    "missing include": (
        "include 'nope.gin'",
        "a.gin:1: include 'nope.gin' not found; searched: {here}. `alfish list` shows what there is.",
    ),
}


@pytest.mark.parametrize("name", ONE_LINERS)
def test_one_problem_one_message(name: str, write: Write, problems: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
    text, expected = ONE_LINERS[name]
    shipped = Path("shipped")
    monkeypatch.setattr("alfish.config.sources.shipped_configs", lambda: shipped)
    assert problems(write(text)) == [expected.replace("{here}", "., shipped")]


def test_all_problems_are_reported_at_once_and_in_order(write: Write, problems: Problems) -> None:
    name = write("Plann.x = 1\nPlan.num_rounds = 'ten'\nPlan.title = bare\nPlan.mode = [1,\nPlan.rate = %R\n")
    lines = problems(name, "Plan.quiet=7")
    assert [line.partition(": ")[0] for line in lines] == [
        "a.gin:1",
        "a.gin:2",
        "a.gin:3",
        "a.gin:4",
        "a.gin:5",
        "command line",
    ]


def test_several_problems_are_counted(write: Write, load: Load) -> None:
    with pytest.raises(Exception, match=r"^2 problems in the configuration\n  a\.gin:1: Plann") as caught:
        load(write("Plann.x = 1\nPlan.num_rounds = 'ten'"))
    assert getattr(caught.value, "exit_code", None) == 2


COMMAND_LINES = {
    "unbalanced quote": (
        "make_world.name='CartPole",
        "command line: unbalanced quote in make_world.name='CartPole",
    ),
    "missing value": ("make_world.name=", "command line: make_world.name=: missing value"),
    "not a binding": ("make_world", "command line: make_world: expected Name.argument=value"),
    "unknown option": (
        "Plan.num_round=3",
        "command line: Plan.num_round: no such option. Did you mean num_rounds (int, default 1000)?",
    ),
    "a string where a number belongs": (
        "Plan.num_rounds=ten",
        "command line: Plan.num_rounds: expects int, got str 'ten'.",
    ),
    "lower-case true": ("Plan.quiet=true", "command line: Plan.quiet: expects bool, got str 'true'; write True."),
    "option without its owner": (
        "num_rounds=3",
        "command line: num_rounds: name what it belongs to: Plan.num_rounds",
    ),
    "macro that nothing uses": ("XYZZY=3", "command line: XYZZY: no %XYZZY is used in the config."),
    "include": ("include 'a.gin'", "command line: include 'a.gin': give a second --gin_file instead of an include"),
}


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_command_line(name: str, problems: Problems) -> None:
    text, expected = COMMAND_LINES[name]
    assert problems([], text) == [expected]


def test_include_with_a_near_name_is_suggested(write: Write, problems: Problems) -> None:
    write("Plan.quiet = True", "nop.gin")
    (line,) = problems(write("include 'nope.gin'"))
    assert line.startswith("a.gin:1: include 'nope.gin' not found; searched: .")
    assert line.endswith("Did you mean 'nop.gin'?")


def test_include_cycle_is_shown_as_a_chain(write: Write, problems: Problems) -> None:
    write("\ninclude 'a.gin'", "b.gin")
    assert problems(write("include 'b.gin'")) == ["include cycle: a.gin:1 → b.gin:2 → a.gin"]


def test_error_in_an_included_file_shows_the_chain(write: Write, problems: Problems) -> None:
    write("Plan.num_round = 1", "base/c.gin")
    write("\ninclude 'c.gin'", "base/b.gin")
    assert problems(write("include 'base/b.gin'")) == [
        "base/c.gin:1: Plan.num_round: no such option. Did you mean num_rounds (int, default 1000)? "
        "(included by base/b.gin:2, included by a.gin:1)"
    ]


def test_byte_order_mark_and_windows_line_ends_are_understood(write: Write, load: Load) -> None:
    config = load(write(b"\xef\xbb\xbfPlan.num_rounds = 3\r\nPlan.layers = (1,\r\n  2)\r\n"))
    assert [binding.text for binding in config.bindings] == ["Plan.num_rounds = 3", "Plan.layers = (1, 2)"]


def test_not_utf8(write: Write, problems: Problems) -> None:
    assert problems(write(b"# ok\nPlan.title = '\xff'\n")) == ["a.gin:2: not UTF-8: byte 0xff at offset 19"]


def test_nul_byte(write: Write, problems: Problems) -> None:
    assert problems(write(b"\nPlan.title = '\0'\n")) == ["a.gin:2: NUL byte; is this a text file?"]


def test_huge_number(write: Write, problems: Problems) -> None:
    assert problems(write("Plan.num_rounds = " + "9" * 5000)) == [
        "a.gin:1: 99999999999999999999... (5000 characters) is not a value"
    ]


def test_deep_nesting(write: Write, problems: Problems) -> None:
    assert problems(write("Plan.quiet = True\nPlan.extra = " + "[" * 2000 + "]" * 2000)) == [
        "a.gin:2: too deeply nested"
    ]


def test_empty_file_is_a_config_that_sets_nothing(write: Write, load: Load) -> None:
    config = load(write(""))
    assert config.bindings == ()
    assert config.warnings == ("a.gin: sets nothing",)


def test_folder_given_as_file(write: Write, problems: Problems) -> None:
    write("", "runs/config.gin")
    assert problems("runs") == ["runs: is a folder, not a config; it holds config.gin"]


def test_missing_file(problems: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alfish.config.sources.shipped_configs", lambda: Path("shipped"))
    assert problems("ppo2.gin") == [
        "'ppo2.gin': no such config; searched: ., shipped. `alfish list` shows what there is."
    ]


def test_missing_file_with_a_near_name(write: Write, problems: Problems) -> None:
    write("", "breakout.gin")
    assert problems("breakot")[0].endswith("Did you mean 'breakout.gin'?")


def test_unreadable_file(write: Write, problems: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write("")

    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda path: refuse(path) if path.name == name else path.open("rb").read())
        assert problems(name) == ["a.gin: cannot be read: Permission denied"]


def test_ten_megabytes(write: Write, problems: Problems) -> None:
    assert problems(write("# x\n" * 2_500_000)) == ["a.gin: 10.0 MB is too much for a config (at most 1 MB)"]


def test_config_of_a_newer_version(write: Write, problems: Problems) -> None:
    lines = problems(write("# alfish 99.0 config, flattened\n\n# b.gin:7\nPlan.new_option = 1\n"))
    assert lines[0].startswith("b.gin:7: Plan.new_option: no such option")
    assert lines[1] == "a.gin: was written by alfish 99.0; this is alfish 0.1.0"


def test_same_key_twice_in_one_file_is_a_warning(write: Write, load: Load) -> None:
    config = load(write("Plan.num_rounds = 1\nPlan.quiet = True\nPlan.num_rounds = 2\n"))
    assert config.warnings == ("a.gin:3: Plan.num_rounds: set a second time; the first, at a.gin:1, is lost",)


def test_overriding_an_include_is_no_warning(write: Write, load: Load) -> None:
    write("Plan.num_rounds = 1\n", "base.gin")
    assert load(write("include 'base.gin'\nPlan.num_rounds = 2\n")).warnings == ()


def test_a_block_with_an_unknown_name_is_one_problem(write: Write, problems: Problems) -> None:
    assert problems(write("Plann:\n  num_rounds = 1\n  quiet = True\n")) == [
        "a.gin:1: Plann: no such name. Did you mean Plan?"
    ]


def test_user_module_that_raises(
    write: Write, problems: Problems, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    write("raise RuntimeError('no luck')", "unlucky_module.py")
    assert problems(write("\nimport unlucky_module")) == ["a.gin:2: import unlucky_module: RuntimeError: no luck"]


def test_module_beside_the_config_but_not_on_the_path(write: Write, problems: Problems) -> None:
    write("", "conf/my_own_module.py")
    assert problems(write("import my_own_module", "conf/a.gin")) == [
        "conf/a.gin:1: import my_own_module: no module of that name on the path. It is in conf: set PYTHONPATH=conf"
    ]
