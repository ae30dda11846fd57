"""Runs that are killed and gone on with: nothing is lost but time."""

from __future__ import annotations

import csv
import multiprocessing
import random
import signal
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from alfish.training.checkpoint import CheckpointFolder
from tests.faults.conftest import Alfish, wait_until
from tests.training import tiny
from tests.training.test_exact_resume import BACKENDS, RUNS, assert_same

NUM_CHECKPOINTS = 20
ITERATIONS = {"ppo": 240, "a2c": 240, "sac": 120, "dqn": 160}
KILLS = (3, 8, 13)  # after so many checkpoints, and a random time
PARTS = ("model", "optimizer", "replay")

# Trainers are forked from a process that has imported everything: half of the time would go into imports.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.faults.test_resume"])


def train(root_dir: Path, name: str, backend: str) -> None:
    text, options = RUNS[name]
    tiny.bind(f'{text}\ncreate_environment.backend = "{backend}"')
    tiny.train(root_dir, **{**options, "num_iterations": ITERATIONS[name], "num_checkpoints": NUM_CHECKPOINTS})


def start(root_dir: Path, name: str, backend: str) -> BaseProcess:
    process = _processes.Process(target=train, args=(root_dir, name, backend))
    process.start()
    return process


def has_saved(checkpoints: CheckpointFolder, number: int) -> bool:
    """Whether there are so many checkpoints within a minute."""
    return wait_until(lambda: len(checkpoints.all()) >= number, 60.0)


def final_state(root_dir: Path, iterations: int) -> dict[str, Any]:
    """Everything that decides how a run would go on, by name."""
    checkpoint = CheckpointFolder(root_dir / "checkpoints").newest()
    assert checkpoint is not None
    assert checkpoint.iteration == iterations
    state = {part: checkpoint.load(part) for part in PARTS if checkpoint.has(part)}
    run = checkpoint.load("state")
    return dict(_leaves({**state, "progress": run["progress"], "algorithm": run["algorithm"]}))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list, tuple)):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(child, f"{path}.{key}")
    else:
        yield path, value


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ITERATIONS)
def test_three_kills_change_no_bit(name: str, backend: str, tmp_path: Path) -> None:
    whole = start(tmp_path / "whole", name, backend)
    checkpoints = CheckpointFolder(tmp_path / "killed" / "checkpoints")
    chance = random.Random(f"{name} {backend}")
    for number in KILLS:
        process = start(tmp_path / "killed", name, backend)
        assert has_saved(checkpoints, number)
        time.sleep(chance.uniform(0.0, 0.1))
        process.kill()
        process.join(30)
        assert process.exitcode == -signal.SIGKILL
    process = start(tmp_path / "killed", name, backend)
    for each in (process, whole):
        each.join(120)
        assert each.exitcode == 0
    state = final_state(tmp_path / "killed", ITERATIONS[name])
    assert_same(final_state(tmp_path / "whole", ITERATIONS[name]), state)
    assert any(path.startswith(".replay") for path in state) == (name in ("sac", "dqn"))


CONFIG = """# A run that is slow enough to be killed.
create_environment.env_name = "CartPole-v1"
create_environment.num_parallel_environments = 2
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.num_iterations = 300
TrainerConfig.num_checkpoints = 30
TrainerConfig.num_evals = 60
TrainerConfig.evaluate = True
TrainerConfig.async_eval = False
TrainerConfig.num_eval_episodes = 1
TrainerConfig.unroll_length = 16
TrainerConfig.summary_interval = 1
TrainerConfig.random_seed = 1
PPOAlgorithm.optimizer = @Adam()
Adam.lr = 0.01
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""


def test_curves_show_every_step_once_after_kills(alfish: Alfish, assert_clean) -> None:
    (alfish.folder / "run.gin").write_text(CONFIG)
    run = alfish.folder / "run"
    checkpoints = CheckpointFolder(run / "checkpoints")
    for number in (4, 12):
        process = alfish.start("--gin_file=run.gin")
        assert has_saved(checkpoints, number)
        time.sleep(0.05)
        process.kill()
        assert alfish.finish(process).rc == -signal.SIGKILL
    result = alfish.finish(alfish.start(f"--root_dir={run}"))
    assert result.rc == 0, result.err
    assert "in the middle of its episodes" in result.err
    everything = list(range(1, 301))
    evaluated = everything[4::5]
    assert _iterations(run / "progress.csv") == tiny.steps(run / "train") == everything
    assert _iterations(run / "eval/progress.csv") == tiny.steps(run / "eval", "Metrics/AverageReturn") == evaluated


def _iterations(file: Path) -> list[int]:
    with file.open(newline="") as stream:
        return [int(row["iterations"]) for row in csv.DictReader(stream)]
