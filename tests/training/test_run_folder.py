from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import alfish
from alfish.errors import CheckpointError, StorageFault
from alfish.training.run_folder import RunFolder, describe_machine, new_folder


def test_a_folder_is_locked_while_it_is_open(tmp_path):
    first = RunFolder(tmp_path / "deep" / "run")
    first.open()
    with pytest.raises(StorageFault, match=rf"is in use by process {os.getpid()} on .*choose another --root_dir"):
        RunFolder(first.path).open()
    first.close()
    assert not first.is_open
    second = RunFolder(first.path)
    second.open()
    assert second.is_open
    second.close()


def test_whether_a_run_holds_the_folder_is_known_without_locking_it(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert folder.is_in_use() is False
    folder.open()
    assert RunFolder(folder.path).is_in_use() is True
    shutil.copytree(folder.path, tmp_path / "copy")
    assert RunFolder(tmp_path / "copy").is_in_use() is False
    folder.close()
    assert folder.is_in_use() is False
    (folder.path / ".lock").write_text(f"process {os.getpid()} on another_machine, since yesterday")
    assert folder.is_in_use() is None


def test_a_file_in_its_place_is_told(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(StorageFault, match=r"cannot write to the run folder .*run: File exists"):
        RunFolder(tmp_path / "run").open()


def test_a_place_where_nothing_can_be_made_is_told():
    with pytest.raises(StorageFault, match="cannot write to the run folder /proc/alfish"):
        RunFolder("/proc/alfish").open()
    with pytest.raises(StorageFault, match="cannot make the run folder /proc/alfish"):
        new_folder(Path("/proc/alfish"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_told(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(StorageFault, match="Permission denied"):
        RunFolder(tmp_path).open()


def test_a_name_that_is_too_long_is_told(tmp_path):
    with pytest.raises(StorageFault, match="File name too long"):
        RunFolder(tmp_path / ("x" * 300)).open()


def test_home_is_understood(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert RunFolder("~/runs/a").path == tmp_path / "runs" / "a"


def test_only_a_folder_that_a_run_has_written_exists(tmp_path):
    with pytest.raises(CheckpointError, match=r"nowhere does not exist\. A run folder is what"):
        RunFolder.existing(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="is not a run folder"):
        RunFolder.existing(tmp_path)
    (tmp_path / "config.gin").write_text("")
    assert RunFolder.existing(tmp_path).path == tmp_path


def test_facts_are_added_to_run_json(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.read_run() == {}
    assert folder.read_seed() is None
    folder.write_run(seed=5, state="running")
    folder.write_run(state="done")
    assert json.loads((tmp_path / "run.json").read_text()) == {"seed": 5, "state": "done"}
    assert folder.read_seed() == 5
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("text", ["{", "[1]", '"seed"'])
def test_a_damaged_run_json_is_told(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"run\.json cannot be read"):
        RunFolder(tmp_path).read_run()


def test_new_folders_are_named_after_the_time_and_never_shared(tmp_path, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda form: "2026-11-16_10-00-00")
    names = [new_folder(tmp_path / "ppo").name for _ in range(3)]
    assert names == ["2026-11-16_10-00-00", "2026-11-16_10-00-00_2", "2026-11-16_10-00-00_3"]
    assert all((tmp_path / "ppo" / name).is_dir() for name in names)


def test_what_a_result_depends_on_is_described():
    facts = describe_machine(num_threads=3)
    assert facts["torch_threads"] == 3
    assert facts["versions"]["torch"].startswith("2.")
    assert facts["versions"]["alfish"] == alfish.__version__
    assert json.loads(json.dumps(facts)) == facts


def test_the_git_revision_is_that_of_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert describe_machine(1)["git_revision"] is None
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    revision = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert describe_machine(1)["git_revision"] == revision
    monkeypatch.setenv("PATH", "")
    assert describe_machine(1)["git_revision"] is None
