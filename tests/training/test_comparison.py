from __future__ import annotations

import json
from pathlib import Path

import pytest

from alfish.errors import CheckpointError
from alfish.training.comparison import compare_runs, comparison_text
from alfish.training.run_folder import RunFolder
from tests.trained_run import CARTPOLE, SUPERVISED, train_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("trained")
    one = train_run(folder, CARTPOLE + "TrainerConfig.random_seed = 1\n", "one")
    changed = CARTPOLE.replace("Adam.lr = 0.01", "Adam.lr = 0.02").replace("@Adam()", "@Adam()\nPPOLoss.gamma = 0.5")
    other = train_run(folder, changed + "TrainerConfig.random_seed = 2\n", "other")
    return one, other


def test_options_that_differ_are_told_with_both_values(runs):
    assert compare_runs(*runs).options == {
        "Adam.lr": ("0.01", "0.02"),
        "PPOLoss.gamma": ("0.99", "0.5"),  # of one run a default
        "TrainerConfig.random_seed": ("1", "2"),
    }


def test_what_only_one_run_used_is_told(runs, tmp_path):
    with_clipping = CARTPOLE.replace("@PPOAlgorithm", "@ActorCriticAlgorithm").replace(
        "PPOAlgorithm.", "ActorCriticAlgorithm."
    )
    a2c = train_run(tmp_path, with_clipping)
    options = compare_runs(runs[0], a2c).options
    assert options["ActorCriticAlgorithm.optimizer"] == (None, "@Adam()")
    assert options["PPOLoss.gamma"] == ("0.99", None)


def test_results_are_beside_them(runs):
    text = comparison_text(compare_runs(*runs))
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    one, other = (RunFolder(folder).read_run() for folder in runs)
    assert lines["environment steps"].split()[-2:] == [f"{one['env_steps']:,}", f"{other['env_steps']:,}"]
    assert lines["best score"].split()[-2:] == [f"{one['best_score']:.2f}", f"{other['best_score']:.2f}"]
    assert lines["Adam.lr"].split() == ["Adam.lr", "0.01", "0.02"]
    assert {"time", "iterations", "last evaluation", "state"} <= set(lines)


def test_the_same_run_has_no_differences(runs):
    comparison = compare_runs(runs[0], runs[0])
    assert (comparison.options, comparison.software) == ({}, {})
    assert comparison_text(comparison).endswith("no option differs")


def test_other_versions_are_told(runs, tmp_path):
    other = train_run(tmp_path)
    recorded = RunFolder(other).read_run()["versions"]
    RunFolder(other).write_run(versions={**recorded, "torch": "1.0"})
    assert compare_runs(other, runs[0]).software["torch"] == ("1.0", recorded["torch"])


def test_it_can_be_written_as_json(runs):
    written = json.loads(json.dumps(compare_runs(*runs).as_dict()))
    assert written["options"]["Adam.lr"] == ["0.01", "0.02"]
    assert [run["state"] for run in written["runs"]] == ["done", "done"]


def test_a_folder_without_the_options_is_told(runs, tmp_path):
    other = train_run(tmp_path)
    (other / "operative.gin").unlink()
    with pytest.raises(CheckpointError, match=r"operative\.gin cannot be read"):
        compare_runs(runs[0], other)


def test_runs_over_data_are_compared_as_well(tmp_path):
    one, other = (train_run(tmp_path, f"{SUPERVISED}\nblobs.noise = {noise}", str(noise)) for noise in (0.1, 2.0))
    comparison = compare_runs(one, other)
    assert comparison.options["blobs.noise"] == ("0.1", "2.0")
    lines = comparison_text(comparison).splitlines()
    (steps,) = [line for line in lines if line.startswith("environment steps")]
    assert steps.split() == ["environment", "steps", "-", "-"]
    assert any(line.startswith("last evaluation") and line.count("accuracy") == 2 for line in lines)
