"""Against a stand-in for the package, which is not among the dependencies."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from alfish.errors import ConfigError
from alfish.summary.wandb_logger import WandbLogger
from alfish.summary.writer import Moment


class FakeRun:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.id = options["id"] or "fresh"
        self.axes: list[tuple[str, str | None]] = []
        self.logged: list[dict[str, float]] = []
        self.is_finished = False

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes.append((name, step_metric))

    def log(self, values: dict[str, float]) -> None:
        self.logged.append(values)

    def finish(self) -> None:
        self.is_finished = True


@pytest.fixture
def runs(monkeypatch) -> list[FakeRun]:
    """What was begun with the stand-in."""
    begun: list[FakeRun] = []

    def init(**options: Any) -> FakeRun:
        begun.append(FakeRun(options))
        return begun[-1]

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    return begun


def test_numbers_arrive_with_their_axes(runs, tmp_path):
    (tmp_path / "config.gin").write_text("Adam.lr = 1\n")
    logger = WandbLogger(project="walking", group="seeds", tags=("a",), mode="offline")
    logger.open(tmp_path)
    assert not runs  # whether a run goes on is known later
    logger.write(Moment(1, 20, 0.5), {"Loss/loss": 0.25})
    logger.write(Moment(2, 40, 1.5, update=8), {"Loss/loss": 0.5})
    logger.close()
    logger.close()
    (run,) = runs
    assert run.options == {
        "project": "walking",
        "entity": None,
        "group": "seeds",
        "tags": ["a"],
        "mode": "offline",
        "name": tmp_path.name,
        "dir": str(tmp_path),
        "config": {"config.gin": "Adam.lr = 1\n"},
        "id": None,
        "resume": "allow",
    }
    assert run.axes == [("iterations", None), ("*", "iterations")]
    assert run.logged == [
        {"iterations": 1, "env_steps": 20, "seconds": 0.5, "Loss/loss": 0.25},
        {"iterations": 2, "env_steps": 40, "seconds": 1.5, "updates": 8, "Loss/loss": 0.5},
    ]
    assert run.is_finished


def test_a_resumed_run_goes_on_there(runs, tmp_path):
    first, second = WandbLogger(), WandbLogger(name="mine")
    for logger in (first, second):
        logger.open(tmp_path)
    assert first.state_dict() == {"id": None}
    first.write(Moment(1, 1, 1.0), {})
    second.load_state_dict(first.state_dict())
    second.write(Moment(2, 2, 2.0), {})
    assert [(run.options["id"], run.options["name"]) for run in runs] == [(None, tmp_path.name), ("fresh", "mine")]


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    logger = WandbLogger()  # as `alfish play` makes it, which logs nothing
    with pytest.raises(ConfigError, match=r"WandbLogger needs wandb.*pip install 'alfish\[wandb\]'"):
        logger.open(tmp_path)
