"""Every shipped config says what it is and what to expect, and runs."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import torch

import alfish
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.child import Child
from alfish.config.carry import Carried
from alfish.environments.create import create_environment
from alfish.seeding import Seeds
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.training.dataset import write_dataset
from alfish.training.recording import Amount, Policy, record
from alfish.training.results import SupervisedEvalResult
from alfish.training.trainer import Trainer

ROOT = Path(__file__).parent.parent.parent / "configs"
CONFIGS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.gin"))
RUNNABLE = [name for name in CONFIGS if not name.startswith("base/")]
TINY = (
    "create_environment.max_episode_steps=30",
    "TrainerConfig.num_iterations=2",
    "TrainerConfig.num_env_steps=0",
    "TrainerConfig.num_updates_per_train_iter=1",
    "TrainerConfig.num_evals=1",
    "TrainerConfig.num_eval_episodes=1",
    "TrainerConfig.num_eval_environments=1",
    "TrainerConfig.async_eval=False",
    "TrainerConfig.show_progress=False",
    "TrainerConfig.verbose=False",
)

OF_DATA = {f"TrainerConfig.{name}" for name in ("num_iterations", "num_evals", "show_progress", "verbose")}


def tiny(name: str, folder: Path) -> list[str]:
    """Overrides for two short iterations; A2C has one update per unroll and refuses the number of updates."""
    alfish.load_config([name])
    options = TrainerConfig()
    if options.ml_type == "sl":
        return [line for line in TINY if line.partition("=")[0] in OF_DATA]
    overrides = [
        line for line in TINY if "num_updates" not in line or "num_updates_per_train_iter" in options.non_default()
    ]
    if options.initial_collect_steps:
        overrides.append("TrainerConfig.initial_collect_steps=8")
    if options.async_unroll:
        overrides.append("TrainerConfig.unroll_queue_size=16")
    if options.offline_buffer_dir:
        return [*overrides, f"TrainerConfig.offline_buffer_dir={recorded(folder)!r}"]
    length = options.mini_batch_length or 1
    return [*overrides, f"TrainerConfig.unroll_length={length * max(1, 16 // length)}"]


def recorded(folder: Path) -> str:
    """A few steps of chance in the environment of the config that is loaded, in place of what it is to learn from."""
    data = folder / "data"
    with create_environment(num_parallel_environments=2) as env:
        tape = record(env, Policy(env, None, 1.0, Seeds(0)), Amount(num_steps=100), seed=0)
        write_dataset(data, tape, env, {})
    return str(data)


def test_there_are_configs() -> None:
    assert {"ppo.gin", "a2c.gin"} <= set(RUNNABLE)


@pytest.mark.parametrize("name", RUNNABLE)
def test_it_begins_with_what_it_is_and_what_to_expect(name: str) -> None:
    first, second, *_ = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert first.startswith("# ")
    assert second.startswith("# Expect ")


def install_all(pipe: Connection) -> None:
    while True:
        carried: Carried = pipe.recv()
        config = carried.install()
        pipe.send((config.digest, TrainerConfig().non_default()))


@pytest.fixture(scope="module")
def worker() -> Iterator[Child]:
    child = Child("the worker", install_all)
    yield child
    child.kill()


@pytest.mark.parametrize("name", RUNNABLE)
def test_it_trains_and_worker_processes_get_it_as_it_is(name: str, tmp_path: Path, worker: Child) -> None:
    config = alfish.load_config([name], tiny(name, tmp_path))
    worker.send(config.carried())
    assert worker.receive(timeout=60.0) == (config.digest, TrainerConfig().non_default())
    pytest.importorskip({"atari": "ale_py", "mujoco": "mujoco"}.get(name.partition("/")[0], "gymnasium"))
    trainer = Trainer(root_dir=str(tmp_path / "run"), strict=True)
    before = {key: value.clone() for key, value in trainer.algorithm.state_dict().items()}
    result = trainer.train()
    assert result.iterations == 2
    assert result.updates >= 2
    assert result.evaluation is not None
    assert isinstance(result.evaluation, SupervisedEvalResult) or len(result.evaluation.returns) == 1
    after = trainer.algorithm.state_dict()
    assert any((after[key] != before[key]).any() for key in before)


def test_ppo_on_atari_has_one_network_of_the_papers_size() -> None:
    alfish.load_config(["atari/ppo_pong.gin"])
    screen = TensorSpec((4, 84, 84), torch.uint8)
    buttons = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(5))
    algorithm = PPOAlgorithm(screen, buttons)
    sizes = [tuple(parameter.shape) for parameter in algorithm.parameters() if parameter.dim() > 1]
    assert sizes == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136), (6, 512), (1, 512)]
