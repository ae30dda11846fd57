"""An empty working folder for every test, a quick start, and at the end the options that were shown to work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from pathlib import Path
from textwrap import fill

import pytest

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.catalog import PACKAGE_ROOT, Catalog
from alfish.config.scan import scan


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # Syncing matters when the power fails, which no test can try; on a busy disk it takes most of the time.
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    # Every run reads the sources of all configurables, which do not change meanwhile.
    monkeypatch.setattr("alfish.config.loading.scan", _scan_once)
    return tmp_path


def _scan_once(roots: Iterable[Path] = (PACKAGE_ROOT,), modules: Iterable[tuple[str, Path]] = ()) -> Catalog:
    return _scan(tuple(roots), tuple(modules))


@cache
def _scan(roots: tuple[Path, ...], modules: tuple[tuple[str, Path], ...]) -> Catalog:
    return scan(roots, modules)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names every option whose tests have all passed."""
    environment = scan().get("create_environment")
    assert environment is not None
    names = {field.name for field in fields(TrainerConfig)} | {each.name for each in environment.parameters}
    passed, failed = (_options(terminalreporter, kind, names) for kind in ("passed", "failed"))
    if works := sorted(passed - failed):
        terminalreporter.write_line(f"{len(works)} options do what they promise:")
        terminalreporter.write_line(fill(", ".join(works), 100, initial_indent="  ", subsequent_indent="  "))


def _options(terminalreporter: pytest.TerminalReporter, outcome: str, names: set[str]) -> set[str]:
    """Of the tests in this folder: `test_unroll_length_is_carried` is about the longest option it begins with."""
    tests = {report.nodeid.partition("[")[0] for report in terminalreporter.stats.get(outcome, [])}
    functions = [test.rpartition("::test_")[2] for test in tests if "tests/options/" in test]
    about = (max((name for name in names if each.startswith(name)), key=len, default="") for each in functions)
    return set(about) - {""}
