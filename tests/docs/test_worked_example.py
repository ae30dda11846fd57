"""The algorithm of docs/architecture.md, taken from the page, learns what is known exactly.

It is also the end-to-end test of the off-policy loop.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import alfish
from alfish.training.trainer import Trainer
from tests.docs.markdown import ROOT, file_block

PAGE = ROOT / "docs" / "architecture.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("q_learning.py", "q_learning.gin"):
        (tmp_path / name).write_text(file_block(PAGE, name))
    return tmp_path


def learned_values(folder: Path, observations: list[float], *bindings: str) -> torch.Tensor:
    """Action values `[observation, action]` after training."""
    quiet = ["TrainerConfig.verbose=False", "TrainerConfig.show_progress=False", "TrainerConfig.random_seed=0"]
    alfish.load_config(["q_learning.gin"], [*quiet, *bindings])
    trainer = Trainer(root_dir=str(folder / "run"))
    trainer.train()
    with torch.no_grad():
        values, _ = trainer.algorithm.q_network(torch.tensor(observations).unsqueeze(-1))
    return values


def test_observation_and_action_go_together(folder: Path) -> None:
    values = learned_values(folder, [-1.0, 1.0])
    torch.testing.assert_close(values, torch.tensor([[1.0, -1.0], [-1.0, 1.0]]), atol=0.01, rtol=0)


def test_a_delayed_reward_is_discounted_once(folder: Path) -> None:
    values = learned_values(folder, [0.0, 1.0], "create_environment.env_name='alfish/DelayedRewardProbe-v0'")
    torch.testing.assert_close(values, torch.tensor([[0.9, 0.9], [1.0, 1.0]]), atol=0.01, rtol=0)


def test_a_time_limit_bootstraps_and_a_real_end_does_not(folder: Path) -> None:
    probe = ("create_environment.env_name='alfish/ConstantRewardProbe-v0'", "QLearningAlgorithm.gamma=0.5")
    limited = learned_values(folder / "limit", [0.0], *probe, "ConstantRewardProbe.truncates=True")
    torch.testing.assert_close(limited, torch.full((1, 2), 2.0), atol=0.02, rtol=0)
    ended = learned_values(folder / "end", [0.0], *probe)
    torch.testing.assert_close(ended, torch.ones(1, 2), atol=0.01, rtol=0)


def test_the_commands_of_the_page_train_and_evaluate_it(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def command(module: str, *arguments: str) -> str:
        line = [sys.executable, "-m", module, *arguments]
        return subprocess.run(line, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout

    command("alfish.train", "--gin_file=q_learning.gin", "--root_dir=runs/q", "TrainerConfig.random_seed=0")
    out = command("alfish.evaluate", "--root_dir=runs/q", "--num_episodes=100", "--json")
    result = json.loads(out.splitlines()[-1])
    assert (result["mean_return"], result["checkpoint"], result["env_steps"]) == (1.0, 200, 1600)
