"""Training a shipped config over several seeds and judging the final policy.

Everything goes through the commands that a user has, so the numbers are those of the README. What the environment
variable BINDINGS holds is bound in every run: `make test-learning BINDINGS="TrainerConfig.compile='on'"`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

SEEDS = range(5)
EPISODES = 100
IN_EVERY_RUN = os.environ.get("BINDINGS", "").split()


@dataclass(frozen=True)
class Case:
    """A config, what its final policy must reach, and in how many environment steps."""

    name: str
    config: str
    most_env_steps: int
    at_least: float = float("-inf")
    at_most: float = float("inf")
    bindings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The final policy of one seed over 100 episodes."""

    seed: int
    mean_return: float
    env_steps: int
    seconds: float


def outcomes(case: Case, folder: Path) -> list[Outcome]:
    """Trains all seeds, two at a time, and prints a row of the table."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda seed: _train_and_evaluate(case, seed, folder / str(seed)), SEEDS))
    returns = "  ".join(f"{outcome.mean_return:8.1f}" for outcome in found)
    seconds = sum(outcome.seconds for outcome in found) / len(found)
    steps = max(outcome.env_steps for outcome in found)
    print(f"\n{case.name:45} {returns}   {steps:>9,} env steps  {seconds:4.0f} s each")
    return found


def _train_and_evaluate(case: Case, seed: int, folder: Path) -> Outcome:
    began = time.monotonic()
    quiet = ("TrainerConfig.evaluate=False", "TrainerConfig.show_progress=False")
    seeded = f"TrainerConfig.random_seed={seed}"
    _run("train", f"--gin_file={case.config}", f"--root_dir={folder}", seeded, *quiet, *case.bindings, *IN_EVERY_RUN)
    seconds = time.monotonic() - began
    output = _run("evaluate", f"--root_dir={folder}", f"--num_episodes={EPISODES}", "--seed=12345", "--json")
    result = json.loads(output.splitlines()[-1])
    assert result["episodes"] == EPISODES
    return Outcome(seed, result["mean_return"], result["env_steps"], seconds)


def _run(command: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"alfish.{command}", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
