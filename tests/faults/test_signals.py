"""What a run does when it gets a signal, with an evaluating process beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.conftest import Alfish, wait_until
from tests.faults.test_evaluator import CONFIG, ENDLESS, evaluations, iterations


@pytest.fixture
def run(alfish: Alfish, assert_clean) -> Path:
    (alfish.folder / "run.gin").write_text(CONFIG.replace("eval_interval = 3", "eval_interval = 10_000_000"))
    return alfish.folder / "run"


def start(alfish: Alfish, *bindings: str) -> subprocess.Popen[str]:
    """A run that has come to its third iteration."""
    process = alfish.start("--gin_file=run.gin", *ENDLESS, *bindings)
    assert wait_until(lambda: iterations(alfish.folder / "run") >= 3, 60.0)
    return process


def start_stuck(alfish: Alfish, faults: Path, grace_period: float) -> subprocess.Popen[str]:
    """A run whose training environment hangs, in the second iteration."""
    bindings = ["load_fault_env.mode='hang'", "load_fault_env.step=15", f"load_fault_env.folder={str(faults)!r}"]
    process = alfish.start("--gin_file=run.gin", f"TrainerConfig.grace_period={grace_period}", *bindings)
    assert wait_until(lambda: any(faults.iterdir()), 60.0)
    return process


def saved(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").glob("0*"))


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_run_is_saved_and_ends_in_order(kind, alfish: Alfish, run: Path):
    process = start(alfish)
    os.killpg(process.pid, kind)  # a terminal sends Ctrl-C to workers, too
    begin = time.monotonic()
    result = alfish.finish(process)
    assert time.monotonic() - begin < 20.0
    assert result.rc == 128 + kind, result.err
    assert f"{kind.name}: saving at iteration" in result.err
    facts = json.loads((run / "run.json").read_text())
    assert facts["state"] == kind.name
    assert len(saved(run)) == 1


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stuck_leaves_after_the_grace_period(kind, alfish: Alfish, run: Path):
    faults = alfish.folder / "faults"
    faults.mkdir()
    process = start_stuck(alfish, faults, grace_period=1)
    os.kill(process.pid, kind)
    begin = time.monotonic()
    result = alfish.finish(process)
    assert 1.0 <= time.monotonic() - begin + 0.1 < 6.0
    assert result.rc == 128 + kind, result.err
    assert f"{kind.name}: not done after 1 s, leaving without saving. There is no checkpoint" in result.err


def test_a_second_signal_leaves_at_once(alfish: Alfish, run: Path):
    faults = alfish.folder / "faults"
    faults.mkdir()
    process = start_stuck(alfish, faults, grace_period=60)
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    result = alfish.finish(process)
    assert time.monotonic() - begin < 8.0
    assert result.rc == 130, result.err


def test_stacks_a_checkpoint_and_an_evaluation_can_be_asked_for_while_a_run_goes_on(alfish: Alfish, run: Path):
    process = start(alfish)
    os.killpg(process.pid, signal.SIGHUP)  # a closed terminal sends it to workers, too; these stay
    assert wait_until(lambda: len(evaluations(run)) == 1, 60.0)
    (run / "evaluate").touch()
    assert wait_until(lambda: len(evaluations(run)) == 2, 60.0)
    assert not (run / "evaluate").exists()
    before = saved(run)
    os.kill(process.pid, signal.SIGUSR2)
    assert wait_until(lambda: len(saved(run)) > len(before), 30.0)
    os.kill(process.pid, signal.SIGUSR1)
    stacks = run / "stacks.txt"
    assert wait_until(lambda: stacks.exists() and "(the evaluator, process " in stacks.read_text(), 30.0)
    os.kill(process.pid, signal.SIGTERM)
    result = alfish.finish(process)
    assert result.rc == 143, result.err
    text = stacks.read_text()
    assert "trainer.py" in text
    assert "evaluation_worker.py" in text
    assert text.strip() in result.err
    assert float(evaluations(run)[-1]["Metrics/EvaluatorRestarts"]) == 0
