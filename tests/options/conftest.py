"""An empty working folder for every test, and a quick start."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

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
