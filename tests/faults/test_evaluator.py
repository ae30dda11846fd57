"""An evaluating process that dies, hangs, or whose environment breaks: training goes on."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import MARK, REPOSITORY, Alfish, Result, wait_until

CONFIG = """# A short run; only its evaluation breaks.
import tests.faults.fault_env
create_environment.env_name = "fault"
create_environment.env_load_fn = @load_fault_env
create_environment.num_parallel_environments = 2
create_environment.backend = "sync"
load_fault_env.index = 0
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.num_iterations = 6
TrainerConfig.unroll_length = 8
TrainerConfig.num_checkpoints = 1
TrainerConfig.evaluate = True
TrainerConfig.eval_interval = 3
TrainerConfig.num_eval_episodes = 2
TrainerConfig.random_seed = 1
PPOAlgorithm.optimizer = @Adam()
Adam.lr = 0.01
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""
ENDLESS = ["TrainerConfig.num_iterations=100_000_000", "TrainerConfig.summary_interval=1"]


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    """Where faults are counted."""
    folder = tmp_path / "faults"
    folder.mkdir()
    (tmp_path / "fault.gin").write_text(f"{CONFIG}load_fault_env.folder = '{folder}'\n")
    return folder


def arguments(mode: str, *bindings: str, times: int = 1) -> list[str]:
    return ["--gin_file=fault.gin", f"eval/load_fault_env.mode={mode!r}", f"load_fault_env.times={times}", *bindings]


def evaluations(result_or_folder: Any) -> list[dict[str, str]]:
    folder = result_or_folder.folder if isinstance(result_or_folder, Result) else result_or_folder
    file = folder / "eval" / "progress.csv"
    if not file.exists():
        return []
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def iterations(folder: Path) -> int:
    """That training has come to."""
    file = folder / "progress.csv"
    lines = file.read_text().splitlines() if file.exists() else []
    return int(lines[-1].split(",")[0]) if len(lines) > 1 and lines[-1][:1].isdigit() else 0


def test_a_process_that_is_killed_is_replaced_and_its_evaluation_repeated(run_alfish, faults, assert_clean):
    result = run_alfish(*arguments("kill"))
    assert result.rc == 0, result.err
    assert len(list(faults.iterdir())) == 1
    assert "was killed by signal 9 (SIGKILL)" in result.err
    assert "It is started again (1 of 3 times)" in result.err
    assert [row["iterations"] for row in evaluations(result)] == ["3", "6"]
    assert "final policy: mean return 20.0" in result.out


def test_a_process_that_is_killed_too_often_is_done_without(run_alfish, faults, assert_clean):
    result = run_alfish(*arguments("kill", times=100))
    assert result.rc == 0, result.err
    assert len(list(faults.iterdir())) == 4
    assert "that is enough: training goes on without" in result.err
    assert evaluations(result) == []
    assert (result.folder / "checkpoints" / "000006").is_dir()


@pytest.mark.parametrize("mode", ["raise", "raise lambda"])
def test_an_environment_that_raises_is_warned_of_and_the_next_evaluation_works(mode, run_alfish, faults, assert_clean):
    result = run_alfish(*arguments(mode))
    assert result.rc == 0, result.err
    text = {"raise": "the wheel came off", "raise lambda": "with a callback"}[mode]
    assert "warning: the evaluation of iteration 3 failed: " in result.err
    assert text in result.err
    assert [row["iterations"] for row in evaluations(result)] == ["6"]


def test_the_process_of_an_evaluation_environment_that_dies_is_no_end_either(run_alfish, faults, assert_clean):
    bindings = ["eval/create_environment.backend='process'", "TrainerConfig.num_eval_environments=2"]
    result = run_alfish(*arguments("kill", *bindings))
    assert result.rc == 0, result.err
    assert "warning: the evaluation of iteration 3 failed: " in result.err
    assert "signal 9" in result.err
    assert [row["iterations"] for row in evaluations(result)] == ["6"]


def test_while_an_evaluation_hangs_training_goes_on_and_the_next_process_evaluates(
    alfish: Alfish, faults: Path, assert_clean
):
    process = alfish.start(*arguments("hang", *ENDLESS, "TrainerConfig.eval_timeout=15"))
    folder = alfish.folder / "run"
    assert wait_until(lambda: any(faults.iterdir()), 60.0)  # it hangs now
    before = iterations(folder)
    assert wait_until(lambda: bool(evaluations(folder)), 90.0)
    assert iterations(folder) - before > 100
    rows = evaluations(folder)
    assert rows[0]["iterations"] == "3"
    assert float(rows[0]["Metrics/EvaluatorRestarts"]) == 1
    os.kill(process.pid, signal.SIGTERM)
    result = alfish.finish(process)
    assert result.rc == 143
    assert "the evaluator did not answer within 15 s" in result.err
    assert "fault_env.py" in result.err  # its stack
    assert "in _break" in result.err


def test_the_end_does_not_wait_longer_than_allowed_for_an_evaluation_that_hangs(run_alfish, faults, assert_clean):
    result = run_alfish(*arguments("hang", "TrainerConfig.eval_timeout=8", times=100), timeout=90.0)
    assert result.rc == 0, result.err
    assert "waiting for the evaluation of iteration 6" in result.err
    assert "the evaluation of iteration 6 is not waited for any longer" in result.err
    assert (result.folder / "checkpoints" / "000006").is_dir()


def test_an_evaluation_that_hangs_dies_with_the_run(alfish: Alfish, faults: Path, assert_clean):
    process = alfish.start(*arguments("hang", *ENDLESS))
    assert wait_until(lambda: any(faults.iterdir()), 60.0)
    assert len(alfish.processes()) >= 2
    process.kill()
    assert wait_until(lambda: not alfish.processes(), 3.0)
    process.communicate()


def test_a_script_without_a_guard_is_told_what_is_missing(alfish: Alfish, assert_clean):
    script = alfish.folder / "script.py"
    script.write_text(
        "import alfish\nfrom alfish.training.trainer import Trainer\n"
        "alfish.load_config(['ppo.gin'], ['TrainerConfig.num_iterations=2', 'TrainerConfig.unroll_length=8'])\n"
        "Trainer(root_dir='run').train()\nprint('done')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), MARK: alfish.mark}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=alfish.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")
    assert "A script that trains must do so below `if __name__ == '__main__':`" in done.stderr
