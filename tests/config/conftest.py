"""A folder to work in, and a sample package to configure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from alfish import config
from alfish.config.record import Config

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALFISH_CONFIG_PATH", raising=False)
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Callable[..., str]:
    """Writes a config and returns its name."""

    def write_file(text: str | bytes, name: str = "a.gin") -> str:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return write_file


@pytest.fixture
def load(folder: Path) -> Callable[..., Config]:
    """`config.load` over the sample package."""

    def load_sample(files: str | Sequence[str] = (), *bindings: str, overrides: dict[str, Any] | None = None) -> Config:
        names = [files] if isinstance(files, str) else files
        return config.load(names, bindings, overrides, roots=[SAMPLE])

    return load_sample


@pytest.fixture
def problems(load: Callable[..., Config]) -> Callable[..., list[str]]:
    """The problems of a configuration, each as printed."""

    def problems_of(files: str | Sequence[str] = (), *bindings: str) -> list[str]:
        with pytest.raises(config.ConfigProblems) as caught:
            load(files, *bindings)
        return [str(problem) for problem in caught.value.problems]

    return problems_of
