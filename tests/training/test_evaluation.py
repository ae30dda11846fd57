from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from alfish import config
from alfish.errors import CheckpointError
from alfish.training.evaluation import evaluate_on_data, evaluate_run, is_supervised
from alfish.training.run_folder import RunFolder
from alfish.training.trainer import Trainer
from tests.trained_run import SUPERVISED, train_run
from tests.training.tiny import TINY, rows

RUN = (
    TINY
    + """
create_environment.env_name = "CartPole-v1"
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.num_iterations = 4
TrainerConfig.num_checkpoints = 2
TrainerConfig.random_seed = 3
TrainerConfig.evaluate = True
TrainerConfig.async_eval = False
TrainerConfig.num_evals = 4
TrainerConfig.num_eval_episodes = 12
TrainerConfig.num_eval_environments = 4
TrainerConfig.show_progress = False
TrainerConfig.verbose = False
"""
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "mine.gin").write_text(RUN)
    config.load([str(folder / "mine.gin")])
    Trainer(root_dir=str(folder / "run")).train()
    config.clear()
    return folder / "run"


@pytest.fixture
def run(trained: Path, folder: Path) -> Path:
    """A run folder that was copied, without its config."""
    shutil.copytree(trained, folder / "copy", symlinks=True)
    return folder / "copy"


def last_evaluation(run: Path) -> dict[str, float]:
    return {name: float(value) for name, value in rows(run / "eval" / "progress.csv")[-1].items()}


def test_the_last_checkpoint_gives_the_returns_of_the_last_evaluation(run):
    result = evaluate_run(run, num_episodes=12)
    expected = last_evaluation(run)
    assert list(result) == ["mean_return", "std_return", "episodes", "mean_length", "checkpoint", "env_steps"]
    assert result["mean_return"] == pytest.approx(expected["Metrics/AverageReturn"], abs=1e-12)
    assert result["std_return"] == pytest.approx(expected["Metrics/StandardDeviationOfReturn"], abs=1e-12)
    assert result["mean_length"] == expected["Metrics/AverageEpisodeLength"]
    assert (result["episodes"], result["checkpoint"]) == (12, 4)
    assert result["env_steps"] == expected["env_steps"]


def test_a_checkpoint_may_be_chosen(run):
    assert evaluate_run(run, 4, which="2")["checkpoint"] == 2
    assert evaluate_run(run, 4, which="best")["checkpoint"] in (1, 2, 3, 4)
    with pytest.raises(CheckpointError, match="no checkpoint '3'"):
        evaluate_run(run, 4, which="3")


def test_other_seeds_play_other_episodes(run):
    own = evaluate_run(run, 12)["mean_return"]
    assert evaluate_run(run, 12, seed=3)["mean_return"] == own
    assert evaluate_run(run, 12, seed=4)["mean_return"] != own


@pytest.mark.parametrize(("episodes", "environments"), [(12, None), (7, None), (10, 5), (1, None)])
def test_exactly_as_many_episodes_as_asked_for(run, episodes, environments):
    assert evaluate_run(run, episodes, environments)["episodes"] == episodes


def test_a_damaged_checkpoint_that_was_asked_for_is_not_replaced_by_another(run):
    (run / "checkpoints/000004/model.pt").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="is damaged"):
        evaluate_run(run, 4, which="4")
    assert evaluate_run(run, 4)["checkpoint"] != 4


def test_a_run_folder_without_its_seed_wants_one(run):
    (run / "run.json").unlink()
    with pytest.raises(CheckpointError, match="holds no seed; give one with --seed"):
        evaluate_run(run, 4)
    assert evaluate_run(run, 4, seed=1)["episodes"] == 4


def test_a_run_over_data_is_evaluated_on_its_test_data(tmp_path):
    run = train_run(tmp_path, SUPERVISED)
    assert is_supervised(run)
    recorded = RunFolder(run).read_run()["evaluation"]
    assert evaluate_on_data(run) == {**recorded["metrics"], "checkpoint": 4}
    assert evaluate_on_data(run, "2") != evaluate_on_data(run)


def test_a_run_in_environments_is_not_over_data(run):
    assert not is_supervised(run)
    assert not is_supervised(run / "no such folder")
