"""docs/options.md has every option, with documentation and a test, and is as the code is."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType

import pytest

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.scan import scan
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "options.md"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program that writes the page."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    import make_options_page

    return make_options_page


def rows() -> dict[str, list[str]]:
    """The cells of every row, by option."""
    found = re.findall(r"^\| `(\w+)`<br>(.*) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: re.split(r" (?<!\\)\| ", rest) for name, rest in found}


def test_nothing_is_missing(page: ModuleType) -> None:
    options = page.options(scan())
    tests = page.collect_tests(option.name for option in options)
    assert page.problems(options, tests) == []


def test_the_page_is_as_the_code_is(page: ModuleType) -> None:
    assert PAGE.read_text() == page.make_page(), "run python tools/make_options_page.py"


def test_every_field_has_a_row() -> None:
    assert {field.name for field in fields(TrainerConfig)} <= rows().keys()
    environment = scan().get("create_environment")
    assert environment is not None
    assert {parameter.name for parameter in environment.parameters} <= rows().keys()
    assert "enable_checkpoint" in rows()


def test_every_linked_test_exists() -> None:
    for name, cells in rows().items():
        (file, function) = re.findall(r"\[`(\w+\.py)::(test_\w+)`\]\(\.\./tests/options/", cells[-1])[0]
        assert f"def {function}(" in (ROOT / "tests" / "options" / file).read_text(), name


def test_a_name_from_elsewhere_is_of_an_option_that_exists(page: ModuleType) -> None:
    import option_names

    names = {option.name for option in page.options(scan())}
    later = {"compile", "ddp_paras_check_interval"}  # announced
    for known in (option_names.APPLIES, option_names.IN_ALF, option_names.IN_TIANSHOU):
        assert set(known) - names <= later


def test_an_option_that_lacks_something_would_be_noticed(page: ModuleType) -> None:
    option = page.options(scan())[0]
    bare = replace(option, parameter=replace(option.parameter, name="num_wheels", doc=""))
    assert page.problems([bare], {"num_wheels": []}) == [
        "TrainerConfig.num_wheels: no documentation; add a line to `Args:` of TrainerConfig",
        "TrainerConfig.num_wheels: no test; add test_num_wheels to tests/options",
        "TrainerConfig.num_wheels: not in APPLIES; add what it is for to tools/option_names.py",
    ]


def test_a_test_belongs_to_the_longest_name_that_it_begins_with(page: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "test_some_options.py").write_text(
        "def test_wheel(): ...\ndef test_wheel_size_grows(): ...\ndef test_wheels(): ...\ndef helper(): ...\n"
    )
    found = page.collect_tests(["wheel", "wheel_size"], tmp_path)
    assert [test.function for test in found["wheel"]] == ["test_wheel"]
    assert [test.function for test in found["wheel_size"]] == ["test_wheel_size_grows"]
