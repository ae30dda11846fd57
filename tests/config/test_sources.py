from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from alfish.config.sources import Reading, shipped_configs

Write = Callable[..., str]


def _read(*names: str) -> Reading:
    reading = Reading()
    for name in names:
        reading.read(name)
    assert reading.problems == []
    return reading


def _places(reading: Reading) -> list[str]:
    return [str(line.place) for line in reading.lines]


def test_search_order(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFISH_CONFIG_PATH", os.pathsep.join(["one", "two"]))
    monkeypatch.setattr("alfish.config.sources.shipped_configs", lambda: Path("three"))
    write("A = 3", "three/x.gin")
    assert _read("x.gin").lines[0].statement.value == 3
    write("A = 2", "two/x.gin")
    assert _read("x.gin").lines[0].statement.value == 2
    write("A = 1", "one/x.gin")
    assert _read("x").lines[0].statement.value == 1
    write("A = 0", "x.gin")
    assert _read("x").lines[0].statement.value == 0


def test_absolute_path_and_home(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("A = 1", "home/x.gin")
    monkeypatch.setenv("HOME", str(folder / "home"))
    assert _places(_read("~/x.gin")) == [f"{folder}/home/x.gin:1"]


def test_includes_are_relative_to_the_including_file_first(write: Write) -> None:
    write("A = 'wrong'", "base.gin")
    write("A = 'right'", "conf/base.gin")
    write("include 'base.gin'\nB = 1", "conf/top.gin")
    reading = _read("conf/top.gin")
    assert reading.lines[0].statement.value == "right"
    assert _places(reading) == ["conf/base.gin:1", "conf/top.gin:2"]
    assert [source.label for source in reading.sources] == ["conf/top.gin", "conf/base.gin"]


def test_include_from_the_parent_folder_and_without_ending(write: Write) -> None:
    write("A = 1", "base/ppo.gin")
    write("include '../base/ppo'", "atari/breakout.gin")
    assert _places(_read("atari/breakout")) == ["base/ppo.gin:1"]


def test_include_from_the_search_path(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("A = 1", "library/shared.gin")
    monkeypatch.setenv("ALFISH_CONFIG_PATH", "library")
    assert _places(_read(write("include 'shared.gin'"))) == ["shared.gin:1"]


def test_a_file_before_a_folder_of_the_same_name(write: Write) -> None:
    write("", "atari/x.gin")
    write("A = 1", "atari.gin")
    assert _places(_read("atari")) == ["atari.gin:1"]


def test_the_same_file_twice_is_no_cycle(write: Write) -> None:
    write("A = 1", "base.gin")
    write("include 'base.gin'", "b.gin")
    assert _places(_read(write("include 'base.gin'\ninclude 'b.gin'"))) == ["base.gin:1", "base.gin:1"]


def test_shipped_configs_exist() -> None:
    assert list(shipped_configs().glob("*.gin"))
