from __future__ import annotations

import json
import platform
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from alfish.errors import CheckpointError
from alfish.training.inspection import clock, inspect_run, inspection_text
from alfish.training.run_folder import RunFolder
from tests.trained_run import SUPERVISED, train_run


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def trained(original: Path, tmp_path: Path) -> Path:
    """A run that a test may damage."""
    return Path(shutil.copytree(original, tmp_path / "run", symlinks=True))


def test_the_run_is_told(trained):
    facts = inspect_run(trained)
    recorded = RunFolder(trained).read_run()
    assert (facts.algorithm, facts.environment, facts.state) == ("PPOAlgorithm", "CartPole-v1", "done")
    assert (facts.iterations, facts.env_steps, facts.seed) == (4, recorded["env_steps"], recorded["seed"])
    assert facts.evaluation is not None
    assert facts.evaluation.iteration == 4
    assert facts.evaluation.mean_return == pytest.approx(recorded["evaluation"]["mean_return"])
    assert facts.best_score == pytest.approx(recorded["best_score"])
    assert facts.versions == recorded["versions"]
    assert facts.seconds > 0
    json.dumps(asdict(facts))


def test_checkpoints_are_told(trained):
    first, second = inspect_run(trained).checkpoints
    assert (first.iteration, second.iteration) == (2, 4)
    assert first.sizes == {
        part: (trained / f"checkpoints/000002/{part}.pt").stat().st_size for part in ("model", "optimizer", "state")
    }
    assert [first.damage, second.damage] == [None, None]
    assert [first.is_best, second.is_best].count(True) == 1
    assert first.env_steps < second.env_steps
    assert not first.is_model_only


def test_damage_is_told_and_the_rest_nevertheless(trained):
    (trained / "checkpoints/000004/model.pt").write_bytes(b"x")
    (trained / "checkpoints/000002/manifest.json").write_text("{")
    first, second = inspect_run(trained).checkpoints
    assert "model.pt is damaged: it has 1 of" in second.damage
    assert "its manifest cannot be read" in first.damage
    assert (first.env_steps, first.iteration) == (None, 2)
    text = inspection_text(inspect_run(trained))
    assert "PPOAlgorithm on CartPole-v1" in text
    assert "is damaged" in text


def test_a_run_that_was_killed_is_not_called_running(trained):
    folder = RunFolder(trained)
    folder.write_run(state="running")
    gone = 2**22 + 1  # larger than any process id
    (trained / ".lock").write_text(f"process {gone} on {platform.node()}, since 2026-11-16 10:00:00")
    assert inspect_run(trained).state.startswith("killed: ")
    folder.open()
    assert inspect_run(trained).state == "running"
    folder.close()
    assert inspect_run(trained).state.startswith("killed: ")
    (trained / ".lock").write_text("process 1 on another_machine, since 2026-11-16 10:00:00")
    assert inspect_run(trained).state == "running"  # who knows


def test_a_row_that_was_cut_off_does_no_harm(trained):
    table = trained / "eval/progress.csv"
    before = inspect_run(trained).evaluation
    with table.open("a") as file:
        file.write("5,1x")
    assert inspect_run(trained).evaluation == before


def test_a_run_without_evaluation_and_checkpoints(trained):
    shutil.rmtree(trained / "checkpoints")
    shutil.rmtree(trained / "eval")
    (trained / "progress.csv").unlink()
    facts = inspect_run(trained)
    assert (facts.evaluation, facts.best_score, facts.checkpoints, facts.seconds) == (None, None, (), None)
    assert inspection_text(facts).endswith("no checkpoints")


def test_anything_else_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="is not a run folder"):
        inspect_run(tmp_path)


def test_the_text_is_a_table(trained):
    lines = inspection_text(inspect_run(trained)).splitlines()
    assert lines[1] == "trained     PPOAlgorithm on CartPole-v1"
    header = next(index for index, line in enumerate(lines) if line.startswith("checkpoint "))
    assert [line.split()[0] for line in lines[header + 1 :]] == ["2", "4"]
    assert sum("whole; best" in line for line in lines) == 1
    assert not any(line.endswith(" ") for line in lines)


def test_times_are_told_in_hours():
    assert (clock(0.4), clock(75), clock(3 * 3600 + 62)) == ("0:00:00", "0:01:15", "3:01:02")


def test_looking_changes_nothing(trained):
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    inspect_run(trained)
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_changes_of_options_and_a_transfer_are_told(trained, tmp_path):
    transfer = {"run": "/runs/walk", "checkpoint": 1200, "prefix": "", "loaded": ["a", "b"], "left": {}}
    RunFolder(trained).write_run(init_from=transfer)
    first = trained / "operative-000000.gin"
    assert first.read_text() == (trained / "operative.gin").read_text()
    changed = re.sub(r"Adam\.lr = .*", "Adam.lr = 0.02  # command line", first.read_text())
    (trained / "operative-000002.gin").write_text(changed)
    facts = inspect_run(trained)
    assert [(change.key, change.old, change.new) for change in facts.changes[2]] == [("Adam.lr", "0.01", "0.02")]
    text = inspection_text(facts)
    assert "options changed at iteration 2:\n    Adam.lr: 0.01 -> 0.02 (command line)" in text
    assert "began with  2 tensors of /runs/walk, iteration 1,200\n" in text
    json.dumps(asdict(facts))


def test_a_run_over_data_is_told_in_epochs(tmp_path):
    run = train_run(tmp_path, SUPERVISED)
    facts = inspect_run(run)
    assert (facts.ml_type, facts.environment, facts.iterations) == ("sl", "blobs", 4)
    assert facts.evaluation is not None
    assert facts.evaluation.metrics == pytest.approx(RunFolder(run).read_run()["evaluation"]["metrics"])
    assert set(facts.evaluation.metrics) >= {"accuracy", "loss", "outlier_separation"}
    text = inspection_text(facts)
    assert "trained     EnsembleClassificationAlgorithm on blobs\n" in text
    assert "progress    4 epochs in " in text
    assert f"evaluation  accuracy {facts.evaluation.metrics['accuracy']:.4g}, loss " in text
    assert " after epoch 4\n" in text
    json.dumps(asdict(facts))
