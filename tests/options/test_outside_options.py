"""What goes in and out of a run while it goes on: hooks and signals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.options.running import EVALUATE, PPO, refusal, train

PARTS = "import tests.options.parts\n"
REPOSITORY = Path(__file__).parent.parent.parent


def test_hooks() -> None:
    run = train(PPO, f"{PARTS}{EVALUATE}TrainerConfig.hooks = [@Moments()]\n", num_iterations=2, eval_interval=2)
    (hook, *_) = run.trainer.config.hooks
    assert hook.calls == [
        ("on_train_start", 0, "Context"),
        ("on_iteration_end", 1, "Context"),
        ("on_eval_start", 2, "Context"),
        ("on_eval_end", 2, "EvalContext"),
        ("on_checkpoint", 2, "CheckpointContext"),
        ("on_iteration_end", 2, "Context"),
        ("on_epoch_end", 2, "EpochContext"),
        ("on_train_end", 2, "EndContext"),
    ]


def test_hooks_without_a_moment_are_refused() -> None:
    message = refusal(PPO, "TrainerConfig.hooks = [@WallTime()]\nWallTime.seconds = 1.0\n")
    assert "TrainerConfig.hooks: WallTime has none of the methods on_train_start" in message


def test_grace_period() -> None:
    Path("stuck.gin").write_text(f"{PARTS}{PPO}TrainerConfig.hooks = [@TerminatedAndStuck()]\n")
    command = [sys.executable, "-m", "alfish.train", "--gin_file=stuck.gin", "--root_dir=run"]
    done = subprocess.run(
        [*command, "TrainerConfig.grace_period=0.2"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 143
    assert "SIGTERM: not done after 0.2 s, leaving without saving" in done.stderr
