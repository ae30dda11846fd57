from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alfish.environments.create import create_environment
from alfish.errors import CheckpointError
from alfish.training.restored_run import RestoredRun
from alfish.training.run_folder import RunFolder
from tests.trained_run import SUPERVISED, train_run


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    return train_run(tmp_path)


def test_the_parameters_are_those_of_the_checkpoint(trained):
    for which, iteration in (("latest", 4), ("2", 2)):
        run = RestoredRun.open(trained, which, None)
        assert run.checkpoint.iteration == iteration
        algorithm = run.build_algorithm(create_environment())
        saved = run.checkpoint.load("model")
        assert all(torch.equal(value, saved[name]) for name, value in algorithm.state_dict().items())


def test_the_seed_is_the_runs_own_unless_given(trained):
    assert RestoredRun.open(trained, "latest", None).seeds.root == RunFolder(trained).read_seed()
    assert RestoredRun.open(trained, "latest", 7).seeds.root == 7


def test_without_a_recorded_seed_one_must_be_given(trained):
    (trained / "run.json").unlink()
    with pytest.raises(CheckpointError, match=r"run\.json holds no seed; give one with --seed"):
        RestoredRun.open(trained, "latest", None)
    assert RestoredRun.open(trained, "latest", 7).seeds.root == 7


def test_bindings_win_over_the_configuration_of_the_run(trained):
    assert RestoredRun.open(trained, "latest", None, ["TrainerConfig.epsilon_greedy=0.5"]).config.epsilon_greedy == 0.5


def test_a_run_over_data_has_its_data_again(tmp_path):
    run = RestoredRun.open(train_run(tmp_path, SUPERVISED), "2", None)
    one, other = run.build_supervised_algorithm(), run.build_supervised_algorithm()
    saved = run.checkpoint.load("model")
    assert all(torch.equal(value, saved[name]) for name, value in one.state_dict().items())
    assert torch.equal(one.dataset.test.inputs, other.dataset.test.inputs)
