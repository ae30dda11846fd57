"""An empty working folder for every test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # Syncing matters when the power fails, which no test can try; on a busy disk it takes most of the time.
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    return tmp_path
