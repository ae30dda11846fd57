from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import gin
import pytest

from alfish.config.modules import find_source, is_own, source_closure
from alfish.config.problems import Place
from alfish.config.record import Config, Import

LOUD = "raise SystemExit('imported')\n"
CONFIGURABLE = "import alfish\n\n@alfish.configurable\ndef {name}(size: int = 3) -> int:\n    return size\n"


def _import(module: str) -> Import:
    return Import(f"import {module}", module, module.partition(".")[0], Place("a.gin", 1))


@pytest.fixture
def package(folder: Path, write: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(folder))
    write("from .inner import shape\n", "my_package/__init__.py")
    write(CONFIGURABLE.format(name="shape"), "my_package/inner.py")
    return folder


def test_own_modules() -> None:
    assert is_own("alf")
    assert is_own("alf.algorithms.x")
    assert is_own("alfish.networks")
    assert is_own("__gin__.x")
    assert not is_own("alfalfa")
    assert not is_own("my.alf")


def test_finding_does_not_import(folder: Path, write: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    write(LOUD, "loud_package/__init__.py")
    write(LOUD, "loud_package/inner.py")
    spec = find_source("loud_package.inner")
    assert spec is not None
    assert spec.origin == str(folder / "loud_package/inner.py")
    assert find_source("loud_package.nope") is None
    assert not [name for name in sys.modules if name.startswith("loud_package")]


def test_closure_follows_the_package(package: Path) -> None:
    assert dict(source_closure([_import("my_package")])) == {
        "my_package": package / "my_package/__init__.py",
        "my_package.inner": package / "my_package/inner.py",
    }


def test_user_configurables_are_checked_before_they_are_imported(
    package: Path, write: Callable[..., str], problems: Callable[..., list[str]]
) -> None:
    name = write("import my_package\nshape.siz = 1\nshape.size = 'x'\n")
    assert problems(name) == [
        "a.gin:2: shape.siz: no such option. Did you mean size (int, default 3)?",
        "a.gin:3: shape.size: expects int, got str 'x'.",
    ]
    assert "my_package" not in sys.modules


def test_names_that_only_importing_explains_are_checked_afterwards(
    folder: Path,
    write: Callable[..., str],
    problems: Callable[..., list[str]],
    load: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    write(
        "import alfish\n\ndef make(name):\n    def made(size: int = 3) -> int:\n        return size\n"
        "    made.__name__ = made.__qualname__ = name\n    return alfish.configurable(made)\n\n"
        "hidden = make('hidden_one')\n",
        "generated_names.py",
    )
    assert problems(write("import generated_names\nhidden_one.size = 'x'\nhiden_one.size = 1\n")) == [
        "a.gin:2: hidden_one.size: expects int, got str 'x'.",
        "a.gin:3: hiden_one: no such name. Did you mean hidden_one?",
    ]
    load(write("import generated_names\nhidden_one.size = 4e0\n"))
    assert sys.modules["generated_names"].hidden() == 4


def test_constants_of_user_modules(
    folder: Path,
    write: Callable[..., str],
    problems: Callable[..., list[str]],
    load: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    write("import gin\n\ngin.constant('their.SIZE', 12)\n", "their_constants.py")
    assert problems(write("import their_constants\nPlan.num_rounds = %their.SIZ\n")) == [
        "a.gin:2: Plan.num_rounds: %their.SIZ is not defined. Add a line: their.SIZ = ..."
    ]
    load(write("import their_constants\nPlan.num_rounds = %SIZE\n"))
    assert gin.get_configurable("Plan")().num_rounds == 12


def test_functions_without_a_signature(folder: Path, write: Callable[..., str], load: Callable[..., Config]) -> None:
    load(write("import builtins\nPlan.extra = @builtins.max\n"))
    assert gin.get_configurable("Plan")().extra([1, 3, 2]) == 3
