"""What is read from source must be what Python makes of it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from alfish.config.catalog import PACKAGE_ROOT, Configurable, describe_object
from alfish.config.kinds import Bounded, Made, OneOf, Scalar
from alfish.config.ranges import Range
from alfish.config.scan import scan, scan_names
from tests.config.conftest import SAMPLE


@pytest.fixture(scope="module")
def entries() -> dict[str, Configurable]:
    return {entry.name: entry for entry in scan([SAMPLE])}


def test_finds_all_configurables(entries: dict[str, Configurable]) -> None:
    assert set(entries) == {
        "Learner", "QuickLearner", "SteadyLearner", "Pupil", "make_pair", "Plan", "Stepper", "make_world",
    }  # fmt: skip


@pytest.mark.parametrize("root", [SAMPLE, PACKAGE_ROOT])
def test_names_are_found_without_parsing_as_well(root: Path) -> None:
    assert scan_names([root]) == [(entry.name, entry.module) for entry in scan([root])]


def test_names_that_decorators_give_count(folder: Path) -> None:
    package = folder / "strange"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import gin\nfrom alfish import configurable\n\n"
        "@gin.configurable(\n    'Renamed'\n)\nclass Odd: ...\n\n"
        "@configurable\n@staticmethod\ndef plain(): ...\n\n"
        'class Not:\n    """\n    @configurable\n    """\n'
    )
    assert scan_names([package]) == [("Renamed", "strange"), ("plain", "strange")]
    assert [entry.name for entry in scan([package])] == ["Renamed", "plain"]


def test_source_and_run_time_agree(entries: dict[str, Configurable]) -> None:
    for entry in entries.values():
        obj = getattr(importlib.import_module(entry.module), entry.name)
        live = describe_object(obj, entry.selector)
        assert [p.name for p in entry.parameters] == list(inspect.signature(obj).parameters) == [
            p.name for p in live.parameters
        ]  # fmt: skip
        assert [str(p.kind) for p in entry.parameters] == [str(p.kind) for p in live.parameters]


def test_types_resolve_across_modules_and_aliases(entries: dict[str, Configurable]) -> None:
    stepper = entries["Learner"].parameter("stepper")
    grade = entries["Pupil"].parameter("grade")
    assert stepper is not None
    assert stepper.kind == OneOf((Made("Stepper"), Scalar(type(None))))
    assert grade is not None
    assert grade.kind == Bounded(Scalar(int), Range(min=1, max=5))


def test_inherited_constructor(entries: dict[str, Configurable]) -> None:
    assert [p.name for p in entries["QuickLearner"].parameters] == ["size", "stepper"]
    assert [p.name for p in entries["SteadyLearner"].parameters] == ["patience"]


def test_required_and_documented(entries: dict[str, Configurable]) -> None:
    teacher = entries["Pupil"].parameter("teacher")
    assert teacher is not None
    assert teacher.required
    assert teacher.doc == "name of the teacher."
    assert str(teacher) == "teacher (str, no default)"
    world = entries["make_world"]
    assert Path(world.path).read_text().splitlines()[world.line - 1].startswith("def make_world(")


def test_base_class_out_of_sight_leaves_it_open(folder: Path) -> None:
    (folder / "odd.py").write_text(
        "import json\nfrom gin import configurable\n\n"
        "@configurable('renamed')\nclass Odd(json.JSONDecoder):\n    pass\n\n"
        "@configurable\ndef catch(a: int, **rest): ...\n"
    )
    odd, catch = scan([], [("odd", folder / "odd.py")])
    assert (odd.name, odd.is_open, odd.selector) == ("renamed", True, "odd.renamed")
    assert catch.is_open
    assert [p.name for p in catch.parameters] == ["a"]


def test_dataclass_fields(folder: Path) -> None:
    (folder / "fields.py").write_text(
        "from dataclasses import dataclass, field\nfrom typing import ClassVar\nimport alfish\n\n"
        "@dataclass\nclass Base:\n    a: int = 1\n    b: ClassVar[int] = 2\n\n"
        "@alfish.configurable\n@dataclass\nclass Child(Base):\n"
        "    c: list[int] = field(default_factory=list)\n"
        "    d: int = field(default=4)\n    e: int = field(init=False)\n"
    )
    (child,) = scan([], [("fields", folder / "fields.py")])
    assert [(p.name, p.default) for p in child.parameters] == [("a", "1"), ("c", "list()"), ("d", "4")]


def test_sources_are_read_not_run(folder: Path, write: Callable[..., str]) -> None:
    write("import alfish\nraise SystemExit\n\n@alfish.configurable\ndef quiet(): ...\n", "loud.py")
    assert [entry.name for entry in scan([], [("loud", folder / "loud.py")])] == ["quiet"]
