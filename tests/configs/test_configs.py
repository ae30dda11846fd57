"""Every shipped config says what it is and what to expect, and runs."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import alfish
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.child import Child
from alfish.config.carry import Carried
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


def tiny(name: str) -> list[str]:
    """Overrides for two short iterations; A2C has one update per unroll and refuses the number of updates."""
    alfish.load_config([name])
    options = TrainerConfig()
    overrides = [
        line for line in TINY if "num_updates" not in line or "num_updates_per_train_iter" in options.non_default()
    ]
    if options.initial_collect_steps:
        overrides.append("TrainerConfig.initial_collect_steps=8")
    if options.async_unroll:
        overrides.append("TrainerConfig.unroll_queue_size=16")
    length = options.mini_batch_length or 1
    return [*overrides, f"TrainerConfig.unroll_length={length * max(1, 16 // length)}"]


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
    config = alfish.load_config([name], tiny(name))
    worker.send(config.carried())
    assert worker.receive(timeout=60.0) == (config.digest, TrainerConfig().non_default())
    pytest.importorskip({"atari": "ale_py", "mujoco": "mujoco"}.get(name.partition("/")[0], "gymnasium"))
    trainer = Trainer(root_dir=str(tmp_path / "run"), strict=True)
    before = {key: value.clone() for key, value in trainer.algorithm.state_dict().items()}
    result = trainer.train()
    assert result.iterations == 2
    assert result.updates >= 2
    assert result.evaluation is not None
    assert len(result.evaluation.returns) == 1
    after = trainer.algorithm.state_dict()
    assert any((after[key] != before[key]).any() for key in before)
