"""How much faster SAC is when a worker acts while the trainer learns, in an environment that takes its time.

    python tools/bench_async_unroll.py --num_env_steps=6000 --sleep=0.002

Trains the same number of environment steps with the same number of updates, first in one process, then in two, and
prints the ratio of the wall-clock times. Starting and ending the processes is not counted. The machine should have
two free cores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import alfish
from alfish.training.trainer import Trainer

CONFIG = """
import slow_env
include "sac.gin"

create_environment.num_parallel_environments = 4
create_environment.wrappers = [@SleepingEnv]
TrainerConfig.initial_collect_steps = 256
TrainerConfig.random_seed = 0
TrainerConfig.num_updates_per_train_iter = 4  # the default; this counts instead:
TrainerConfig.num_updates_per_env_step = 0.5
TrainerConfig.evaluate = False
TrainerConfig.num_evals = None
TrainerConfig.num_checkpoints = 0
TrainerConfig.show_progress = False
TrainerConfig.verbose = False
"""


@dataclass(frozen=True)
class Outcome:
    start_seconds: float
    train_seconds: float
    env_steps: int
    updates: int
    shares: str


def train(is_async: bool, num_env_steps: int, sleep: float) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "slow.gin"
        file.write_text(CONFIG)
        options = {
            "SleepingEnv.seconds": sleep,
            "TrainerConfig.num_env_steps": num_env_steps,
            "TrainerConfig.async_unroll": is_async,
        }
        alfish.load_config([str(file)], [f"{name}={value}" for name, value in options.items()])
        began = time.monotonic()
        trainer = Trainer(root_dir=f"{folder}/run")
        started = time.monotonic()
        before = trainer.timers.seconds()
        for _ in trainer:  # one epoch
            ended, result = time.monotonic(), trainer.result
    spent = {name: seconds - before.get(name, 0.0) for name, seconds in result.seconds.items()}
    shares = "  ".join(f"{name} {seconds:.1f} s" for name, seconds in spent.items() if seconds > 0.05)
    return Outcome(started - began, ended - started, result.env_steps, result.updates, shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num_env_steps", type=int, default=6000)
    parser.add_argument("--sleep", type=float, default=0.002, help="seconds that a step takes in addition")
    flags = parser.parse_args()
    outcomes = [train(is_async, flags.num_env_steps, flags.sleep) for is_async in (False, True)]
    for name, outcome in zip(("in one process", "asynchronous"), outcomes, strict=True):
        print(
            f"{name:15} {outcome.train_seconds:6.1f} s  ({outcome.env_steps:,} environment steps, "
            f"{outcome.updates:,} updates; start {outcome.start_seconds:.1f} s; {outcome.shares})"
        )
    print(f"ratio {outcomes[0].train_seconds / outcomes[1].train_seconds:.2f}")


if __name__ == "__main__":
    main()
