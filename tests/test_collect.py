"""`alfish collect` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from alfish import cli
from alfish.config.command import run
from alfish.training.dataset import read_dataset
from tests.trained_run import train_run


def test_it_records_a_run_and_says_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = train_run(tmp_path)
    out = tmp_path / "data"
    assert run(cli.dispatch, ["collect", str(folder), str(out), "--num_episodes=4"]) == 0
    tape = read_dataset(out).tape
    printed = capsys.readouterr().out.splitlines()[-1]
    mean = tape.reward.sum().item() / 4
    assert printed == f"{out}: {tape.num_steps} steps of 4 episodes, mean return {mean:.2f}"


def test_it_records_steps_of_chance_from_a_config(tmp_path: Path) -> None:
    out = tmp_path / "data"
    assert run(cli.dispatch, ["collect", "sac.gin", str(out), "--num_steps=32", "--random=1"]) == 0
    assert read_dataset(out).tape.num_steps == 32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one"], "usage: alfish collect"),
        (["one", "two", "--num_steps=3", "--num_episodes=3"], "give one of them"),
        (["one", "two", "--random=1.5"], "--random"),
        (["nowhere", "two"], "nowhere does not exist"),
        (["one", "two", "--num_episode=3"], "Did you mean --num_episodes?"),
    ],
)
def test_what_cannot_be_is_told(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(cli.dispatch, ["collect", *arguments]) in (2, 6)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "two").exists()
