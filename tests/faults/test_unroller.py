"""A process that acts dies, hangs, or has an environment that breaks: the run goes on, or says why it does not."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults.conftest import Alfish, wait_until

CONFIG = """# A short run whose environments break in the worker.
import tests.faults.fault_env
create_environment.env_name = "fault"
create_environment.env_load_fn = @load_fault_env
create_environment.num_parallel_environments = 2
create_environment.backend = "sync"
load_fault_env.index = 0
TrainerConfig.algorithm_ctor = @DqnAlgorithm
TrainerConfig.async_unroll = True
TrainerConfig.unroll_length = 4
TrainerConfig.unroll_queue_size = 8
TrainerConfig.num_iterations = 20
TrainerConfig.num_updates_per_train_iter = 1
TrainerConfig.mini_batch_size = 8
TrainerConfig.whole_replay_buffer_training = False
TrainerConfig.clear_replay_buffer = False
TrainerConfig.num_checkpoints = 1
TrainerConfig.random_seed = 1
DqnAlgorithm.q_network_ctor = @QNetwork
DqnAlgorithm.optimizer = @Adam()
QNetwork.fc_layer_params = (4,)
"""
ENDLESS = "TrainerConfig.num_iterations=100_000_000"


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    """Where faults are counted."""
    folder = tmp_path / "faults"
    folder.mkdir()
    (tmp_path / "fault.gin").write_text(f"{CONFIG}load_fault_env.folder = '{folder}'\n")
    return folder


def arguments(mode: str, *bindings: str, times: int = 1) -> list[str]:
    return ["--gin_file=fault.gin", f"load_fault_env.mode={mode!r}", f"load_fault_env.times={times}", *bindings]


def test_a_worker_that_is_killed_is_replaced_and_the_run_ends_well(run_alfish, faults, assert_clean):
    result = run_alfish(*arguments("kill"))
    assert result.rc == 0, result.err
    assert len(list(faults.iterdir())) == 1
    assert "unroll worker 0 (process " in result.err
    assert "was killed by signal 9 (SIGKILL)" in result.err
    assert "It is started again (1 of 3). Lost: " in result.err
    assert "20 updates" in result.out


def test_a_worker_that_is_killed_too_often_ends_the_run(run_alfish, faults, assert_clean):
    result = run_alfish(*arguments("kill", times=100))
    assert result.rc == 7, result.err
    assert len(list(faults.iterdir())) == 4
    assert "It was started again 3 times before, and is given up" in result.err
    assert "Traceback" not in result.err


def test_a_killed_worker_is_noticed_within_a_second(alfish: Alfish, faults: Path, assert_clean):
    process = alfish.start(*arguments("", ENDLESS))
    trainer = process.pid
    assert wait_until(lambda: len(alfish.processes()) >= 2 and _is_learning(alfish.folder / "run"), 60.0)
    (worker,) = [pid for pid in alfish.processes() if _parent(pid) == trainer and "spawn_main" in _command(pid)]
    os.kill(worker, signal.SIGKILL)
    began = time.monotonic()
    assert wait_until(lambda: _has_another_worker(alfish, trainer, worker), 30.0)
    assert time.monotonic() - began < 1.0
    os.kill(trainer, signal.SIGTERM)
    result = alfish.finish(process)
    assert result.rc == 143, result.err
    assert result.err.count("It is started again") == 1


def test_a_worker_that_hangs_says_where_and_is_replaced(run_alfish, faults, assert_clean):
    result = run_alfish(*arguments("hang", "TrainerConfig.unroll_timeout=15"))
    assert result.rc == 0, result.err
    assert "made no step within 15 s" in result.err
    assert "fault_env.py" in result.err, "the stack"
    assert "It is started again (1 of 3)" in result.err


def test_an_environment_that_raises_in_the_worker_ends_the_run_as_it_would_here(run_alfish, faults, assert_clean):
    result = run_alfish(*arguments("raise"))
    assert result.rc == 3, result.err
    assert "the wheel came off" in result.err


def test_nothing_is_left_when_the_trainer_is_killed(alfish: Alfish, faults: Path, assert_clean):
    process = alfish.start(*arguments("", ENDLESS))
    assert wait_until(lambda: len(alfish.processes()) >= 2 and _is_learning(alfish.folder / "run"), 60.0)
    process.kill()
    process.communicate()
    assert_clean()


def test_an_on_policy_algorithm_is_refused_before_anything_starts(run_alfish, faults, assert_clean):
    result = run_alfish(
        "--gin_file=ppo.gin", "TrainerConfig.async_unroll=True", "create_environment.num_parallel_environments=1"
    )
    assert result.rc == 2, result.err
    assert "PPOAlgorithm is on-policy" in result.err


def _is_learning(folder: Path) -> bool:
    file = folder / "progress.csv"
    return file.exists() and len(file.read_text().splitlines()) > 3


def _has_another_worker(alfish: Alfish, trainer: int, old: int) -> bool:
    return any(pid != old and _parent(pid) == trainer and "spawn_main" in _command(pid) for pid in alfish.processes())


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
