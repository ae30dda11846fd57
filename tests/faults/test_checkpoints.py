"""Kills while saving, full disks, damaged files, folders in use: what is saved stays good, what is wrong is said."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from alfish.errors import CheckpointError
from alfish.training.checkpoint import Checkpoint, CheckpointFolder
from alfish.training.checkpoint_writer import CheckpointWriter
from tests.faults.conftest import REPOSITORY, Alfish, wait_until

CONFIG = """# A short run.
create_environment.env_name = "CartPole-v1"
create_environment.num_parallel_environments = 2
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.num_iterations = 9
TrainerConfig.num_checkpoints = 3
TrainerConfig.unroll_length = 8
TrainerConfig.summary_interval = 1
TrainerConfig.random_seed = 1
PPOAlgorithm.optimizer = @Adam()
Adam.lr = 0.01
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""
REPLAYED = """# A short run with replay.
create_environment.env_name = "CartPole-v1"
create_environment.num_parallel_environments = 2
TrainerConfig.algorithm_ctor = @DqnAlgorithm
TrainerConfig.num_iterations = 9
TrainerConfig.num_checkpoints = 3
TrainerConfig.whole_replay_buffer_training = False
TrainerConfig.clear_replay_buffer = False
TrainerConfig.mini_batch_size = 8
TrainerConfig.initial_collect_steps = 40
DqnAlgorithm.optimizer = @Adam()
QNetwork.fc_layer_params = (4,)
"""
ENDLESS = "TrainerConfig.num_iterations=100_000_000"
# Checkpoints of 0.6 MB, again and again.
LARGE = ["ActorDistributionNetwork.fc_layer_params=(200, 200)", "TrainerConfig.num_checkpoints=1_000_000", ENDLESS]

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def run(alfish: Alfish, assert_clean) -> Path:
    (alfish.folder / "run.gin").write_text(CONFIG)
    (alfish.folder / "replayed.gin").write_text(REPLAYED)
    return alfish.folder / "run"


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a small file system."""
    mounted: list[Path] = []

    def make(name: str, options: str) -> Path:
        path = tmp_path / name
        path.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip("mounting is not allowed here")
        mounted.append(path)
        return path

    yield make
    for path in mounted:
        subprocess.run(["umount", path], check=True)


def temporary(checkpoints: CheckpointFolder) -> list[str]:
    return [path.name for path in checkpoints.path.iterdir() if path.name.startswith(".")]


# Kills


def save_forever(path: Path) -> None:
    """Saves 32 MB, back to back, as a run does."""
    torch.set_num_threads(1)
    folder = CheckpointFolder(path)
    writer = CheckpointWriter(folder)
    newest = folder.newest()
    iteration = newest.iteration if newest else 0
    while True:
        iteration += 1
        value = torch.full((8_000_000,), float(iteration))
        writer.begin(iteration, {"model": {"weight": value}, "optimizer": {}, "state": {}}, {})
        writer.wait()
        for old in folder.all()[:-2]:
            folder.remove(old)


def test_fifty_kills_while_saving_leave_the_newest_checkpoint_readable(tmp_path: Path) -> None:
    checkpoints = CheckpointFolder(tmp_path / "checkpoints")
    chance = random.Random(1)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.faults.test_resume", "tests.faults.test_checkpoints"])
    num_interrupted = 0
    for _ in range(50):
        process = processes.Process(target=save_forever, args=(checkpoints.path,))
        process.start()
        time.sleep(chance.uniform(0.1, 0.6))
        process.kill()
        process.join(30)
        assert process.exitcode == -signal.SIGKILL
        newest = checkpoints.newest()
        if newest is not None:
            assert newest == checkpoints.all()[-1]
            weight = newest.load("model")["weight"]
            assert weight[0] == weight[-1] == newest.iteration
            left = temporary(checkpoints)
            assert len(left) <= 1
            num_interrupted += len(left)
    assert checkpoints.newest() is not None
    assert num_interrupted > 10  # the kills came while something was written
    checkpoints.sweep()
    assert temporary(checkpoints) == []


def test_what_a_kill_left_is_removed_at_the_next_start(alfish: Alfish, run_alfish, run: Path) -> None:
    checkpoints = CheckpointFolder(run / "checkpoints")
    process = alfish.start("--gin_file=run.gin", *LARGE)
    assert wait_until(lambda: len(checkpoints.all()) >= 2 and bool(temporary(checkpoints)), 60.0)
    process.kill()
    alfish.finish(process)
    (checkpoints.path / ".000099.1").mkdir()  # the kill may have come a moment too late
    newest = checkpoints.newest()
    assert newest is not None
    bindings = [*LARGE[:1], f"TrainerConfig.num_iterations={newest.iteration}"]  # nothing is left to do
    result = run_alfish("--gin_file=run.gin", *bindings)
    assert result.rc == 0, result.err
    assert f"going on from iteration {newest.iteration}" in result.err
    assert temporary(checkpoints) == []


# A full disk


@is_root
def test_a_full_disk_ends_the_run_after_three_failures(run_alfish, mount, run: Path) -> None:
    mount("run", "size=4m")
    result = run_alfish("--gin_file=run.gin", *LARGE)
    assert result.rc == 5, result.err
    assert "No space left on device (needs 0." in result.err
    assert "Training goes on; it is tried again" in result.err
    assert "That was failure 3 of 3 in a row" in result.err.splitlines()[-1]
    checkpoints = CheckpointFolder(run / "checkpoints")
    newest = checkpoints.newest()
    assert newest is not None
    assert newest == checkpoints.all()[-1]
    assert f"The last checkpoint is {newest.path}" in result.err
    assert temporary(checkpoints) == []


def limit_files(process: subprocess.Popen[str], size: int) -> None:
    """No file of the process can grow beyond `size`, as if the disk were full there."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_file_that_cannot_grow_is_a_full_disk_too(alfish: Alfish, run: Path) -> None:
    checkpoints = CheckpointFolder(run / "checkpoints")
    process = alfish.start("--gin_file=run.gin", *LARGE, "TrainerConfig.summary_interval=1_000_000")
    assert wait_until(lambda: len(checkpoints.all()) >= 2, 60.0)
    limit_files(process, 100_000)
    result = alfish.finish(process)
    assert result.rc == 5, result.err
    assert ": File too large (needs " in result.err
    assert result.err.count("Training goes on; it is tried again") == 2
    assert checkpoints.newest() == checkpoints.all()[-1]
    assert temporary(checkpoints) == []


def test_at_the_end_a_full_disk_says_what_is_lost(alfish: Alfish, run: Path) -> None:
    bindings = ["TrainerConfig.num_checkpoints=0", "TrainerConfig.num_iterations=200"]
    process = alfish.start("--gin_file=run.gin", LARGE[0], *bindings)
    limit_files(process, 100_000)
    result = alfish.finish(process)
    assert result.rc == 5, result.err
    assert "There is no checkpoint. All of the run is lost" in result.err


def test_summaries_that_cannot_be_written_stop_nothing(alfish: Alfish, run: Path) -> None:
    process = alfish.start("--gin_file=run.gin", "TrainerConfig.num_iterations=300")
    limit_files(process, 50_000)  # checkpoints are smaller
    result = alfish.finish(process)
    assert result.rc == 0, result.err
    assert result.err.count(f"cannot write {run / 'train'}: ") == 1
    assert "Training goes on, summaries are dropped" in result.err
    assert CheckpointFolder(run / "checkpoints").find("latest").iteration == 300


# Damage


def cut(share: float) -> Callable[[Path], None]:
    return lambda file: os.truncate(file, int(file.stat().st_size * share))


def flip(share: float) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[int(share * (len(data) - 1))] ^= 1
        file.write_bytes(data)

    return change


def test_damage_is_noticed_and_never_trained_from(run_alfish, run: Path, caplog) -> None:
    assert run_alfish("--gin_file=run.gin").rc == 0
    harms = {f"cut to {share}": cut(share) for share in (0, 0.1, 0.5, 0.999)}
    harms |= {f"flipped at {share}": flip(share) for share in (0, 0.5, 1)}
    for name, harm in harms.items():
        checkpoints = CheckpointFolder(run.parent / name)
        shutil.copytree(run / "checkpoints", checkpoints.path, symlinks=True)
        harm(checkpoints.at(9).path / "model.pt")
        assert checkpoints.find("latest") == Checkpoint(checkpoints.path / "000006", 6), name
        with pytest.raises(CheckpointError, match=r"model\.pt is damaged"):
            checkpoints.find("9").load("model")
    cut(0.5)(run / "checkpoints/000009/model.pt")
    result = run_alfish("--gin_file=run.gin")
    assert result.rc == 0, result.err
    assert "model.pt is damaged: it has " in result.err
    assert "Using the checkpoint of iteration 6" in result.err
    flip(0.5)(run / "checkpoints/000009/model.pt")
    asked = subprocess.run(
        [sys.executable, "-m", "alfish.evaluate", f"--root_dir={run}", "--checkpoint=9"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 6, asked.stderr
    assert "its checksum differs from the manifest's" in asked.stderr
    for path in run.glob("checkpoints/0*/state.pt"):
        cut(0)(path)
    result = run_alfish("--gin_file=run.gin")
    assert result.rc == 6, result.err
    assert "no checkpoint is whole" in result.err


def test_a_replay_that_was_deleted_is_missed(run_alfish, run: Path) -> None:
    assert run_alfish("--gin_file=replayed.gin").rc == 0
    (run / "checkpoints/000009/replay.pt").unlink()
    result = run_alfish("--gin_file=replayed.gin", "TrainerConfig.num_iterations=12")
    assert result.rc == 0, result.err
    assert "the checkpoint has no replay: it fills anew, the initial collection is made again" in result.err
    assert CheckpointFolder(run / "checkpoints").find("latest").iteration == 12


# Folders and memory


def test_two_trainings_do_not_share_a_folder(alfish: Alfish, run_alfish, run: Path) -> None:
    first = alfish.start("--gin_file=run.gin", ENDLESS)
    assert wait_until(lambda: (run / "progress.csv").exists(), 60.0)
    second = run_alfish("--gin_file=run.gin", ENDLESS)
    assert second.rc == 5
    assert f"{run} is in use by process {first.pid} on " in second.err
    first.send_signal(signal.SIGTERM)
    result = alfish.finish(first)
    assert result.rc == 143, result.err
    assert CheckpointFolder(run / "checkpoints").newest() is not None


def test_a_killed_training_does_not_keep_its_folder(alfish: Alfish, run_alfish, run: Path) -> None:
    first = alfish.start("--gin_file=run.gin", ENDLESS)
    assert wait_until(lambda: (run / "progress.csv").exists(), 60.0)
    first.kill()
    alfish.finish(first)
    assert run_alfish("--gin_file=run.gin").rc == 0


@is_root
def test_a_file_system_that_is_read_only_is_told(run_alfish, mount, run: Path) -> None:
    mount("run", "ro")
    result = run_alfish("--gin_file=run.gin")
    assert result.rc == 5
    assert f"cannot write to the run folder {run}: Read-only file system" in result.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_told(run_alfish, run: Path) -> None:
    run.mkdir(mode=0o555)
    result = run_alfish("--gin_file=run.gin")
    assert result.rc == 5
    assert f"cannot write to the run folder {run}: Permission denied" in result.err


def test_a_file_in_place_of_the_folder_is_told(run_alfish, run: Path) -> None:
    run.write_text("")
    result = run_alfish("--gin_file=run.gin")
    assert result.rc == 5
    assert f"cannot write to the run folder {run}: File exists" in result.err


def test_a_replay_that_does_not_fit_into_memory_is_refused(run_alfish, run: Path) -> None:
    result = run_alfish("--gin_file=replayed.gin", "TrainerConfig.replay_buffer_length=10_000_000_000")
    assert result.rc == 2
    assert "GB are available. replay_buffer_length = " in result.err
