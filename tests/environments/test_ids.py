"""Environments that do not exist are found without making any."""

from __future__ import annotations

from pathlib import Path

import pytest

from alfish.config.loading import read
from alfish.environments.ids import unknown_ids


@pytest.mark.parametrize(
    ("bindings", "unknown"),
    [
        (["create_environment.env_name='CartPole-v1'"], []),
        (["create_environment.env_name='CartPole-v7'"], ["create_environment.env_name"]),
        (
            ["create_environment.env_name='CartPole-v1'", "eval/create_environment.env_name='Maze'"],
            ["eval/create_environment.env_name"],
        ),
        (
            ["create_environment.env_name='Maze'", "create_environment.env_load_fn=@load_atari"],
            ["create_environment.env_name"],
        ),
        (["create_environment.env_name='level 3'", "create_environment.env_load_fn=@PointGoalEnv"], []),
        (["create_environment.env_name='mine:Maze-v0'"], []),  # only its module can tell
        ([], []),
    ],
)
def test_unknown_ids(bindings: list[str], unknown: list[str]) -> None:
    problems = unknown_ids(read([], bindings))
    assert [problem.keys[0] for problem in problems] == unknown
    assert all("no such environment" in problem.message for problem in problems)


def test_modules_of_the_user_may_register_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_mazes.py").write_text("")
    (tmp_path / "a.gin").write_text("import my_mazes\ncreate_environment.env_name = 'Maze-v0'\n")
    assert unknown_ids(read(["a.gin"])) == []
