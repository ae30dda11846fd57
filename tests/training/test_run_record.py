from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from alfish import config
from alfish.training.run_folder import RunFolder
from alfish.training.trainer import Trainer
from tests.trained_run import CARTPOLE, train_run
from tests.training.tiny import weights


def facts(folder: str | Path) -> dict:
    return json.loads((Path(folder) / "run.json").read_text())


def train(*files: str, root_dir: str, bindings: tuple[str, ...] = ()) -> Trainer:
    config.load(files, bindings)
    trainer = Trainer(root_dir=root_dir)
    trainer.train()
    config.clear()
    return trainer


@pytest.mark.parametrize("seed", ["", "TrainerConfig.random_seed = None\n", "TrainerConfig.random_seed = 3\n"])
def test_config_gin_repeats_the_run(seed):
    """The same weights after the same iterations, also when nobody chose the seed."""
    Path("mine.gin").write_text(CARTPOLE + seed)
    first = train("mine.gin", root_dir="first")
    Path("mine.gin").unlink()
    again = train("first/config.gin", root_dir="again")
    assert torch.equal(weights(again), weights(first))
    assert facts("again")["seed"] == facts("first")["seed"]
    third = train("again/config.gin", root_dir="third")
    assert torch.equal(weights(third), weights(first))
    other = train("first/config.gin", root_dir="other", bindings=("TrainerConfig.random_seed=77",))
    assert not torch.equal(weights(other), weights(first))


def test_where_a_drawn_seed_comes_from_is_kept(tmp_path):
    folder = train_run(tmp_path)
    read = config.read([str(folder / "config.gin")])
    assert read.where("TrainerConfig.random_seed") == "drawn when the run began"
    assert read.binding("TrainerConfig.random_seed").value == facts(folder)["seed"]


def test_what_was_run_and_what_came_of_it_is_written_down(tmp_path):
    folder = train_run(tmp_path)
    written = facts(folder)
    assert (written["algorithm"], written["environment"], written["num_environments"]) == (
        "PPOAlgorithm",
        "CartPole-v1",
        2,
    )
    assert (written["state"], written["iterations"], written["limits"]) == ("done", 4, {"num_iterations": 4})
    assert written["env_steps"] > 100
    assert written["evaluation"]["iteration"] == 4
    assert written["evaluation"]["episodes"] == 4
    assert written["best_score"] >= written["evaluation"]["mean_return"]
    text = (folder / "README.md").read_text()
    assert text.startswith("# PPOAlgorithm on CartPole-v1\n")
    assert f"{written['env_steps']:,} environment steps" in text


def test_the_readme_is_there_from_the_start():
    Path("mine.gin").write_text(CARTPOLE)
    config.load(["mine.gin"])
    trainer = Trainer(root_dir="run")
    assert "This was written at the start" in Path("run/README.md").read_text()
    trainer.close()
    assert "(interrupted) after 0 iterations" in Path("run/README.md").read_text()


def test_a_resumed_run_keeps_when_it_first_started(tmp_path):
    folder = train_run(tmp_path)
    RunFolder(folder).write_run(started="long ago")
    train(str(folder / "config.gin"), root_dir=str(folder), bindings=("TrainerConfig.num_iterations=6",))
    assert facts(folder)["started"] == "long ago"
    assert facts(folder)["iterations"] == 6
