"""Environments that die, raise, hang, or return rubbish, in a training run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from alfish.environments.create import create_environment
from tests.faults import fault_env
from tests.faults.conftest import Alfish, Result, wait_until
from tests.faults.fault_env import load_fault_env

CONFIG = """# A short run on an environment that breaks.
import tests.faults.fault_env
create_environment.env_name = "fault"
create_environment.env_load_fn = @load_fault_env
create_environment.num_parallel_environments = 3
create_environment.backend = "process"
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.num_iterations = 6
TrainerConfig.unroll_length = 8
TrainerConfig.num_checkpoints = 1
PPOAlgorithm.optimizer = @Adam()
Adam.lr = 0.01
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""
# From the fault to the end of the command: noticing it takes a second at most, leaving Python the rest.
END_SECONDS = 8.0

Run = Callable[..., Result]


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    """Where faults are counted."""
    folder = tmp_path / "faults"
    folder.mkdir()
    (tmp_path / "fault.gin").write_text(f"{CONFIG}load_fault_env.folder = '{folder}'\n")
    return folder


def arguments(mode: str, **options: Any) -> list[str]:
    named = {"load_fault_env.mode": mode, **{key.replace("__", "."): value for key, value in options.items()}}
    return ["--gin_file=fault.gin", *(f"{key}={value!r}" for key, value in named.items())]


def seconds_since(faults: Path) -> float:
    """Since the last fault."""
    return time.monotonic() - max(float(path.read_text().split()[0]) for path in faults.iterdir())


STOPPED = {
    "kill": r"fault: environment 1 \(process \d+\) was killed by signal 9 \(SIGKILL\)",
    "raise two arguments": r"fault: environment 1 raised TwoArguments: this and that",
    "raise lambda": r"fault: environment 1 raised HoldsLambda: with a callback",
    "raise local": r"fault: environment 1 raised Local: known here only",
    "nan": r"fault: environment 1 returned an observation that is not finite: \[nan, nan, nan\]",
    "inf reward": r"fault: environment 1 returned a reward that is not finite: inf",
    "short": r"fault: environment 1 returned an observation that does not fit: the shape is \(1,\), .* \(3,\)",
    "dtype": r"fault: environment 1 returned an observation that does not fit: the dtype is complex64, .* float32",
}


@pytest.mark.parametrize("mode", STOPPED)
def test_a_fault_ends_the_run_with_code_3_and_is_named(
    mode: str, faults: Path, run_alfish: Run, assert_clean: Callable[[], None]
) -> None:
    result = run_alfish(*arguments(mode))
    assert seconds_since(faults) < END_SECONDS
    assert result.rc == 3, result.err
    assert re.search(f"error: {STOPPED[mode]}", result.err), result.err
    assert re.search(r"in step 5 of episode 0, action [01]", result.err)
    assert "Traceback" not in result.err


@pytest.mark.parametrize("mode", ["nan", "short"])
def test_the_same_without_processes(mode: str, faults: Path, run_alfish: Run, assert_clean: Callable[[], None]) -> None:
    result = run_alfish(*arguments(mode, create_environment__backend="sync"))
    assert result.rc == 3, result.err
    assert re.search(f"error: {STOPPED[mode]}", result.err), result.err
    assert re.search(r"in step 5 of episode 0, action [01]", result.err)


@pytest.mark.parametrize(("step", "patience"), [(5, 1.0), (0, 5.0)], ids=["step", "reset"])
def test_a_hanging_environment_is_given_up_after_its_time(
    step: int, patience: float, faults: Path, run_alfish: Run, assert_clean: Callable[[], None]
) -> None:
    options = {"load_fault_env__step": step, "create_environment__env_step_timeout": 1.0}
    result = run_alfish(*arguments("hang", **options))
    assert patience <= seconds_since(faults) < patience + END_SECONDS
    assert result.rc == 3
    assert f"error: fault: environment 1 did not answer within {patience:g} s" in result.err
    assert f"in step {step} of episode 0" in result.err if step else "in the reset of episode 0" in result.err
    # The stack of the process, and in it the line.
    lines = Path(fault_env.__file__).read_text().splitlines()
    number = next(number for number, line in enumerate(lines, 1) if "time.sleep(1000)" in line)
    assert f'fault_env.py", line {number} in _break' in result.err


@pytest.mark.parametrize(
    ("mode", "backend"),
    [("kill", "process"), ("hang", "process"), ("raise lambda", "process"), ("nan", "sync")],
)
def test_by_choice_the_environment_is_restarted_and_the_run_goes_on(
    mode: str, backend: str, faults: Path, run_alfish: Run, assert_clean: Callable[[], None]
) -> None:
    result = run_alfish(
        *arguments(
            mode,
            create_environment__backend=backend,
            create_environment__on_env_error="restart",
            create_environment__env_step_timeout=1.0,
        )
    )
    assert result.rc == 0, result.err
    assert len(list(faults.iterdir())) == 1
    assert result.err.count("It is restarted (1 of at most 3 times)") == 1
    assert "fault: environment 1" in result.err
    assert "environments were restarted 1 time" in result.out


def test_restarts_have_an_end(faults: Path, run_alfish: Run, assert_clean: Callable[[], None]) -> None:
    options = {
        "create_environment__on_env_error": "restart",
        "create_environment__max_env_restarts": 2,
        "load_fault_env__times": 9,
    }
    result = run_alfish(*arguments("kill", **options))
    assert result.rc == 3, result.err
    assert len(list(faults.iterdir())) == 3
    assert result.err.count("It is restarted") == 2
    assert "restarted 2 times already, as often as create_environment.max_env_restarts allows" in result.err


@pytest.mark.parametrize("who", ["trainer", "group"])
@pytest.mark.parametrize("mode", ["hang", ""], ids=["while stuck", "while stepping"])
def test_nothing_outlives_a_killed_trainer(
    who: str, mode: str, faults: Path, alfish: Alfish, assert_clean: Callable[[], None]
) -> None:
    process = alfish.start(
        *arguments(mode, TrainerConfig__num_iterations=10**6, create_environment__spare_environments=1)
    )
    try:
        assert wait_until(lambda: bool(list(faults.iterdir())) if mode else has_trained(alfish), 60)
        assert len(alfish.processes()) >= 5  # the trainer, three environments and a spare
    finally:
        (os.killpg if who == "group" else os.kill)(process.pid, signal.SIGKILL)
        process.communicate()
    assert wait_until(lambda: not alfish.processes(), 3)
    assert_clean()


def has_trained(alfish: Alfish) -> bool:
    table = alfish.folder / "run" / "progress.csv"
    return table.is_file() and table.read_text().count("\n") > 2


def test_an_interrupted_run_leaves_no_process(faults: Path, alfish: Alfish, assert_clean: Callable[[], None]) -> None:
    process = alfish.start(*arguments("", TrainerConfig__num_iterations=10**6))
    assert wait_until(lambda: has_trained(alfish), 60)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    result = alfish.finish(process, 60)
    assert result.rc == 130, result.err
    assert "Traceback" not in result.err


def test_python_ends_though_nobody_closed_the_environments(alfish: Alfish, tmp_path: Path) -> None:
    script = tmp_path / "careless.py"
    script.write_text(
        "from alfish.environments.create import create_environment\n"
        "if __name__ == '__main__':\n"
        "    env = create_environment('CartPole-v1', num_parallel_environments=2, backend='process')\n"
        "    env.reset(seed=0)\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=60)


def test_spares_hide_slow_resets() -> None:
    def slowest_step(num_spares: int) -> float:
        load = partial(load_fault_env, reset_seconds=2.0)
        with create_environment("fault", load, 1, "process", spare_environments=num_spares) as env:
            env.reset(seed=0)
            seconds = []
            for _ in range(21):  # an episode, longer than a reset, and the start of the next
                time.sleep(0.15)
                began = time.monotonic()
                env.step(torch.tensor([0]))
                seconds.append(time.monotonic() - began)
            return max(seconds)

    assert slowest_step(0) >= 2.0
    assert slowest_step(1) < 1.0
