from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

from alfish.errors import CheckpointError, StorageFault
from alfish.training import checkpoint_writer
from alfish.training.checkpoint import Checkpoint, CheckpointFolder
from alfish.training.checkpoint_writer import CheckpointWriter, copied


class SlowFolder(CheckpointFolder):
    """Saves when it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go = threading.Event()

    def save(self, iteration: int, parts: dict[str, dict[str, Any]], about: dict[str, Any]) -> Checkpoint:
        assert self.go.wait(60)
        return super().save(iteration, parts, about)


@pytest.fixture
def folder(tmp_path) -> SlowFolder:
    return SlowFolder(tmp_path / "checkpoints")


@pytest.fixture
def writer(folder) -> CheckpointWriter:
    return CheckpointWriter(folder)


def parts(value: float) -> dict[str, dict[str, Any]]:
    return {name: {"weight": torch.full((8,), value)} for name in ("model", "optimizer", "state")}


def test_training_goes_on_while_a_checkpoint_is_written(folder, writer):
    state = parts(1.0)
    writer.begin(1, state, {"env_steps": 7})
    state["model"]["weight"].fill_(2.0)
    state["state"]["late"] = 3
    assert writer.is_busy
    assert not writer.has_ended()
    assert folder.newest() is None
    folder.go.set()
    writer.wait()
    assert not writer.is_busy
    newest = folder.newest()
    assert (newest.iteration, newest.manifest["env_steps"]) == (1, 7)
    assert torch.equal(newest.load("model")["weight"], torch.full((8,), 1.0))
    assert "late" not in newest.load("state")


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities of their own")
def test_writing_gives_way_to_training(folder, writer, monkeypatch):
    niceness = []
    save = CheckpointFolder.save

    def noted(*arguments: Any) -> Checkpoint:
        niceness.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return save(*arguments)

    monkeypatch.setattr(CheckpointFolder, "save", noted)
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    folder.go.set()
    writer.begin(1, parts(1.0), {})
    writer.wait()
    assert niceness == [min(own + 15, 19)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


def test_it_writes_where_priorities_are_forbidden(folder, writer, monkeypatch):
    def forbidden(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", forbidden)
    folder.go.set()
    writer.begin(1, parts(1.0), {})
    writer.wait()
    assert folder.newest().iteration == 1


def test_what_is_being_written_is_never_the_newest(folder, writer, monkeypatch):
    folder.go.set()
    writer.begin(1, parts(1.0), {})
    writer.wait()
    reached, go = threading.Event(), threading.Event()

    def slow_sync(descriptor: int) -> None:
        reached.set()
        assert go.wait(60)

    monkeypatch.setattr("os.fsync", slow_sync)
    writer.begin(2, parts(2.0), {})
    assert reached.wait(60)  # a part of it is on disk
    assert folder.newest().iteration == 1
    assert folder.last_words().endswith("000001")
    go.set()
    writer.wait()
    assert folder.newest().iteration == 2


def test_there_is_one_write_at_a_time(folder, writer):
    writer.begin(1, parts(1.0), {})
    with pytest.raises(RuntimeError, match="a checkpoint is being written"):
        writer.begin(2, parts(2.0), {})
    folder.go.set()
    writer.wait()


def test_a_fault_is_raised_where_the_end_is_asked_for_and_writing_can_be_tried_again(folder, writer, monkeypatch):
    folder.go.set()
    with monkeypatch.context() as patch:
        patch.setattr("json.dump", _full)
        writer.begin(1, parts(1.0), {})
        with pytest.raises(StorageFault, match="No space left on device"):
            writer.wait()
    assert not writer.is_busy
    writer.begin(2, parts(2.0), {})
    writer.wait()
    assert folder.newest().iteration == 2


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_what_could_not_be_loaded_is_refused_at_once(writer):
    with pytest.raises(CheckpointError, match=r"state\.odd is a builtins\.set"):
        writer.begin(1, {"state": {"odd": {1}}}, {})
    assert not writer.is_busy


def test_without_memory_for_a_copy_training_waits(folder, writer, monkeypatch):
    folder.go.set()
    monkeypatch.setattr(checkpoint_writer, "available_memory", lambda: 100)
    writer.begin(1, parts(1.0), {})
    assert folder.newest().iteration == 1
    assert writer.has_ended()


def test_a_disk_that_does_not_answer_is_a_fault(folder, writer, monkeypatch):
    monkeypatch.setattr(checkpoint_writer, "_PATIENCE", 0.05)
    writer.begin(1, parts(1.0), {})
    with pytest.raises(
        StorageFault, match=r"not written after 0\.05 s; does .*checkpoints answer\? There is no checkpoint"
    ):
        writer.wait()
    folder.go.set()
    assert writer.has_ended(60)


def test_a_copy_is_equal_and_shares_nothing():
    module = torch.nn.BatchNorm1d(2)
    original = {"a": (torch.ones(2), [torch.zeros(3)[1:], "text", None]), "module": module.state_dict()}
    copy = copied(original)
    assert type(copy["module"]) is OrderedDict
    assert copy["module"]._metadata == original["module"]._metadata
    assert copy["a"][1][1:] == ["text", None]
    original["a"][0].fill_(7.0)
    original["a"][1][0].fill_(7.0)
    original["a"][1].append(1)
    module.weight.data.fill_(7.0)
    assert torch.equal(copy["a"][0], torch.ones(2))
    assert torch.equal(copy["a"][1][0], torch.zeros(2))
    assert len(copy["a"][1]) == 3
    assert torch.equal(copy["module"]["weight"], torch.ones(2))
