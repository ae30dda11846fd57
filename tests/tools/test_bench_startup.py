"""The check of the start-up sees what it is made to see."""

from __future__ import annotations

from pathlib import Path

import bench_startup
import pytest


def test_an_import_of_torch_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("")
    (tmp_path / "outer.py").write_text("import torch")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert bench_startup.imports_torch(bench_startup.Command("", ("-c", "import outer"), 1.0))
    assert not bench_startup.imports_torch(bench_startup.Command("", ("-c", "import json"), 1.0))


def test_a_command_that_fails_is_told() -> None:
    with pytest.raises(SystemExit, match="no such thing"):
        bench_startup.seconds(bench_startup.Command("x", ("-c", "raise OSError('no such thing')"), 1.0), "wall")


def test_help_imports_no_torch() -> None:
    assert not bench_startup.imports_torch(bench_startup.COMMANDS[0])
