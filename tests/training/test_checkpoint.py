from __future__ import annotations

import ast
import json
import multiprocessing
import os
import resource
import shutil
import signal
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import alfish
from alfish.errors import CheckpointError, StorageFault
from alfish.training.checkpoint import PARTS, CheckpointFolder


def parts(value: float = 1.0) -> dict:
    return {name: {"weight": torch.full((8,), value), "name": name} for name in PARTS}


@pytest.fixture
def checkpoints(tmp_path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoints")


def flip(file: Path, at: float = 0.5) -> None:
    """Changes one bit."""
    data = bytearray(file.read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    file.write_bytes(data)


def truncate(file: Path, share: float = 0.5) -> None:
    os.truncate(file, int(file.stat().st_size * share))


def test_what_is_saved_is_loaded(checkpoints):
    checkpoint = checkpoints.save(12, parts(3.0), {"env_steps": 40})
    assert checkpoint.path.name == "000012"
    assert checkpoint.manifest["env_steps"] == 40
    assert checkpoint.manifest["iteration"] == 12
    for name in PARTS:
        loaded = checkpoint.load(name)
        assert torch.equal(loaded["weight"], torch.full((8,), 3.0))
        assert loaded["name"] == name
    assert checkpoint.damage() is None


def test_checkpoints_are_in_the_order_of_their_iterations(checkpoints):
    for iteration in (9, 100, 1_234_567):
        checkpoints.save(iteration, parts(), {})
    (checkpoints.path / "notes.txt").write_text("")
    assert [checkpoint.iteration for checkpoint in checkpoints.all()] == [9, 100, 1_234_567]
    assert checkpoints.newest().iteration == 1_234_567


def test_without_checkpoints_there_is_no_newest_one(checkpoints):
    assert checkpoints.newest() is None
    with pytest.raises(CheckpointError, match="holds no checkpoint; has the run saved one yet"):
        checkpoints.find("latest")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (flip, "its checksum differs"),
        (lambda file: flip(file, 0.0), "its checksum differs"),
        (truncate, r"it has [\d,]+ of [\d,]+ bytes"),
        (lambda file: truncate(file, 0.0), "it has 0 of"),
        (Path.unlink, "is missing"),
    ],
)
def test_damage_is_noticed_and_the_checkpoint_before_is_used(checkpoints, part, harm, told, caplog):
    checkpoints.save(1, parts(), {})
    damaged = checkpoints.save(2, parts(), {})
    harm(damaged.path / f"{part}.pt")
    with pytest.raises(CheckpointError, match=told):
        damaged.load(part)
    assert checkpoints.newest().iteration == 1
    assert checkpoints.find("latest").iteration == 1
    assert "000002" in caplog.text
    assert "Using the checkpoint of iteration 1" in caplog.text


@pytest.mark.parametrize("manifest", ["", "{", "[]", "{}", '{"files": 3}', '{"files": {}}'])
def test_a_damaged_manifest_is_noticed(checkpoints, manifest):
    checkpoints.save(1, parts(), {})
    (checkpoints.save(2, parts(), {}).path / "manifest.json").write_text(manifest)
    assert checkpoints.newest().iteration == 1


def test_when_all_are_damaged_each_is_named(checkpoints):
    for iteration in (1, 2):
        flip(checkpoints.save(iteration, parts(), {}).path / "model.pt")
    with pytest.raises(CheckpointError, match=r"no checkpoint is whole:(\n.*00000[12].*){2}"):
        checkpoints.newest()


def test_a_checkpoint_is_found_by_name(checkpoints):
    for iteration in (5, 10):
        checkpoints.save(iteration, parts(), {})
    checkpoints.mark_best(checkpoints.at(5))
    assert [checkpoints.find(which).iteration for which in ("latest", "best", "5", "000010")] == [10, 5, 5, 10]
    with pytest.raises(CheckpointError, match=r"no checkpoint '7' in .*; there are latest, best, 5, 10"):
        checkpoints.find("7")


def test_the_best_moves_and_may_be_unknown(checkpoints):
    for iteration in (5, 10):
        checkpoints.mark_best(checkpoints.save(iteration, parts(float(iteration)), {}))
    assert torch.equal(checkpoints.find("best").load("model")["weight"], torch.full((8,), 10.0))
    checkpoints.mark_best(None)
    with pytest.raises(CheckpointError, match=r"has no best checkpoint: the run was not evaluated\. Use 'latest'"):
        checkpoints.find("best")


def test_the_best_is_found_in_a_copy_that_followed_links(checkpoints, tmp_path):
    checkpoints.mark_best(checkpoints.save(5, parts(), {}))
    shutil.copytree(checkpoints.path, tmp_path / "copy", symlinks=False)
    copied = CheckpointFolder(tmp_path / "copy")
    assert copied.find("best").iteration == 5
    copied.mark_best(copied.save(9, parts(), {}))
    assert copied.find("best").iteration == 9


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("harm",))


@pytest.mark.parametrize("forced", [False, True])
def test_code_in_a_checkpoint_is_never_run(checkpoints, monkeypatch, tmp_path, forced):
    monkeypatch.chdir(tmp_path)
    if forced:
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    checkpoint = checkpoints.save(1, parts(), {})
    torch.save({"weight": Evil()}, checkpoint.path / "model.pt")
    _make_manifest_agree(checkpoint)
    with pytest.raises(CheckpointError, match=r"model\.pt cannot be loaded safely"):
        checkpoint.load("model")
    assert not (tmp_path / "harm").exists()


def _make_manifest_agree(checkpoint) -> None:
    from alfish.training.checkpoint import _sha256

    file, manifest = checkpoint.path / "model.pt", checkpoint.manifest
    manifest["files"]["model.pt"] = {"size": file.stat().st_size, "sha256": _sha256(file)}
    (checkpoint.path / "manifest.json").write_text(json.dumps(manifest))


def test_every_file_is_loaded_safely():
    package = Path(alfish.__file__).parent
    calls = [
        (path.name, node)
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"
    ]
    assert calls
    for name, call in calls:
        assert "weights_only=True" in ast.unparse(call), name


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.zeros(2), "numpy.ndarray"),
        (np.float64(1.0), "numpy.float64"),
        (defaultdict(int), "collections.defaultdict"),
        (Counter(), "collections.Counter"),
        (Path("x"), "pathlib.PosixPath"),
        ({1, 2}, "builtins.set"),
        (Evil(), "Evil"),
    ],
)
def test_what_could_not_be_loaded_is_refused_before_it_is_written(checkpoints, value, kind):
    with pytest.raises(CheckpointError, match=rf"state\.normalizer\.1 is a .*{kind}, which cannot be loaded safely"):
        checkpoints.save(1, {**parts(), "state": {"normalizer": [0, value]}}, {})
    with pytest.raises(CheckpointError, match=r"state\.normalizer, key .* is a"):
        checkpoints.save(1, {**parts(), "state": {"normalizer": {np.int64(3): 0}}}, {})
    assert checkpoints.all() == []


def test_everything_that_is_allowed_can_be_loaded(checkpoints):
    state = {
        "plain": [1, 2.5, True, None, "text", b"bytes", 10**30, float("inf")],
        "nested": ({"a": (1, [2])}, OrderedDict(b=torch.arange(3))),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        3: torch.Generator().get_state(),
    }
    loaded = checkpoints.save(1, {**parts(), "state": state}, {}).load("state")
    assert loaded["plain"] == state["plain"]
    assert loaded["nested"][0] == state["nested"][0]
    assert torch.equal(loaded[3], state[3])


def test_a_place_that_cannot_be_written_is_a_storage_fault(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFault, match=r"cannot save the checkpoint of iteration 1 in .*file: "):
        CheckpointFolder(tmp_path / "file").save(1, parts(), {})


def test_a_failed_save_leaves_nothing_behind(checkpoints, monkeypatch):
    checkpoints.save(1, parts(), {})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageFault, match="No space left on device"):
        checkpoints.save(2, parts(), {})
    assert [path.name for path in checkpoints.path.iterdir()] == ["000001"]
    assert checkpoints.newest().iteration == 1


def test_nothing_is_begun_when_the_disk_is_too_full(checkpoints, monkeypatch):
    checkpoints.save(1, parts(), {})
    large = {**parts(), "model": {"weight": torch.zeros(250_000)}}
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1_100_000))
    monkeypatch.setattr("torch.save", None)
    with pytest.raises(
        StorageFault,
        match=r"iteration 2 in .*: No space left on device \(needs 1\.2 MB, free: 1\.1 MB\)\. The last .* is .*000001$",
    ):
        checkpoints.save(2, large, {})


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file can grow beyond 100 kB, as if the disk were full there."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_the_disk_said_while_a_file_was_written_is_told(checkpoints, small_files):
    checkpoints.save(1, parts(), {})
    with pytest.raises(StorageFault, match=r"iteration 2 in .*: File too large .* is .*000001$"):
        checkpoints.save(2, {**parts(), "model": {"weight": torch.zeros(250_000)}}, {})
    assert [path.name for path in checkpoints.path.iterdir()] == ["000001"]
    assert checkpoints.newest().iteration == 1


def _save_and_die(path: Path, iteration: int, moment: int) -> None:
    """Saves; the process is killed at the given one of the moments at which something reaches the disk."""
    calls = 0

    def deadly(function):
        def wrapped(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*arguments, **options)
            calls += 1
            if calls == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    os.fsync, os.rename = deadly(os.fsync), deadly(os.rename)
    CheckpointFolder(path).save(iteration, parts(float(iteration)), {})


def test_a_kill_at_any_moment_of_a_save_leaves_the_newest_checkpoint_readable(checkpoints):
    # Three parts, the manifest and the folder are synced, the folder aside is renamed: before and after each of them.
    checkpoints.save(1, parts(1.0), {})
    for moment in range(1, 14):
        iteration = moment + 1
        child = multiprocessing.get_context("fork").Process(
            target=_save_and_die, args=(checkpoints.path, iteration, moment)
        )
        child.start()
        child.join(30)
        assert child.exitcode == (0 if moment == 13 else -signal.SIGKILL)
        expected = iteration if moment >= 10 else 1
        newest = checkpoints.newest()
        assert newest.iteration == expected
        assert torch.equal(newest.load("model")["weight"], torch.full((8,), float(expected)))
        assert sum(path.name.startswith(".") for path in checkpoints.path.iterdir()) <= 1
    assert not any(path.name.startswith(".") for path in checkpoints.path.iterdir())
