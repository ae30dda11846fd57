from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from alfish import config, evaluate
from alfish.config.command import run
from alfish.training.run_folder import RunFolder
from alfish.training.trainer import Trainer
from tests.test_train import TINY
from tests.trained_run import SUPERVISED, train_run

REPOSITORY = Path(__file__).parent.parent
KEYS = ["mean_return", "std_return", "episodes", "mean_length", "checkpoint", "env_steps"]
OPTIONS = """
TrainerConfig.evaluate = True
TrainerConfig.async_eval = False
TrainerConfig.num_evals = 2
TrainerConfig.num_eval_environments = 2
TrainerConfig.show_progress = False
TrainerConfig.verbose = False
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.gin").write_text(TINY + OPTIONS)
    config.load([str(folder / "tiny.gin")])
    Trainer(root_dir=str(folder / "run")).train()
    config.clear()
    (folder / "tiny.gin").unlink()
    return folder / "run"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a copy of a run; its config is gone."""
    shutil.copytree(trained, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: str) -> int:
    return run(evaluate.main, arguments)


def result(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_last_line_is_one_json_object(capsys):
    assert command("--root_dir=copy", "--num_episodes=6", "--json") == 0
    out = capsys.readouterr().out
    measured = json.loads(out.splitlines()[-1])
    assert list(measured) == KEYS
    assert (measured["episodes"], measured["checkpoint"], measured["mean_length"]) == (6, 4, 5.0)
    assert f"mean return {measured['mean_return']:.2f}" in out.splitlines()[0]


def test_without_json_there_is_only_the_sentence(capsys):
    assert command("copy", "--num_episodes=2") == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.startswith("mean return ")
    assert "over 2 episodes" in out


def test_it_is_a_command_of_its_own(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-m", "alfish.evaluate", "--root_dir=copy", "--num_episodes=4", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout.splitlines()[-1])) == KEYS


def test_checkpoints_are_chosen_by_name(capsys):
    for which, expected in (("latest", {4}), ("2", {2}), ("best", {2, 4})):
        assert command("--root_dir=copy", "--num_episodes=2", "--json", f"--checkpoint={which}") == 0
        assert result(capsys)["checkpoint"] in expected
    assert command("--root_dir=copy", "--checkpoint=3") == 6
    assert "no checkpoint '3' in copy/checkpoints; there are latest, best, 2, 4" in capsys.readouterr().err


def test_the_number_of_environments_and_the_seed_may_be_chosen(capsys):
    assert command("--root_dir=copy", "--num_episodes=6", "--num_environments=3", "--seed=5", "--json") == 0
    first = result(capsys)
    assert command("--root_dir=copy", "--num_episodes=6", "--num_environments=3", "--seed=5", "--json") == 0
    assert result(capsys) == first
    assert first["episodes"] == 6


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--root_dir is missing"),
        (["--root_dir=nowhere"], 6, "nowhere does not exist"),
        (["--root_dir=."], 6, "is not a run folder"),
        (["--root_dir=copy", "--num_episodes=0"], 2, "num_episodes"),
        (["--root_dir=copy", "--num_episode=3"], 2, "Did you mean --num_episodes?"),
        (["--root_dir=copy", "Adam.lr=3"], 2, "reads its configuration from the run folder"),
        (["copy", "other"], 2, "one run folder at a time, not copy and other"),
    ],
)
def test_what_is_wrong_is_told(capsys, arguments, code, message):
    assert command(*arguments) == code
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_damage_is_told(capsys):
    (Path("copy") / "checkpoints/000004/model.pt").write_bytes(b"x")
    assert command("--root_dir=copy", "--checkpoint=4") == 6
    assert "is damaged" in capsys.readouterr().err
    assert command("--root_dir=copy", "--num_episodes=2", "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out.splitlines()[-1])["checkpoint"] == 2
    assert "Using the checkpoint of iteration 2" in captured.err
    shutil.rmtree("copy/checkpoints")
    assert command("--root_dir=copy") == 6
    assert "holds no checkpoint" in capsys.readouterr().err


def test_a_run_over_data_is_evaluated_on_its_test_data(tmp_path, capsys):
    train_run(tmp_path, SUPERVISED, "sl")
    capsys.readouterr()
    assert command("--root_dir=sl", "--json") == 0
    sentence, line = capsys.readouterr().out.splitlines()
    measured = json.loads(line)
    assert sentence.startswith(f"accuracy {measured['accuracy']:.4g}, loss {measured['loss']:.4g}, ")
    assert sentence.endswith("(checkpoint 4)")
    assert measured["checkpoint"] == 4
    assert command("sl", "--checkpoint=2") == 0
    assert capsys.readouterr().out.endswith("(checkpoint 2)\n")


@pytest.mark.parametrize("flag", ["--num_episodes=3", "--num_environments=2", "--seed=1"])
def test_a_run_over_data_has_no_episodes(flag, tmp_path, capsys):
    RunFolder(tmp_path).write_run(ml_type="sl")
    assert command(str(tmp_path), flag) == 2
    err = capsys.readouterr().err
    assert flag.partition("=")[0] in err
    assert "there are no episodes" in err
