"""What asynchronous evaluation costs training: iterations per second with evaluation off, on, and hanging.

    python tools/bench_async.py [--iterations 150] [--rounds 3]

PPO on CartPole-v1, an evaluation of ten episodes every ten iterations. The three kinds take turns, so that other
programs on the machine disturb all of them alike. Counted is the time from the end of the first iteration, when the
evaluating process is at work, to the end of the last; then the run is told to end, so that it does not wait for
the last evaluation. Wall time shows what a user sees, if there is a free core for the evaluator; time of the processor
shows what training itself has to do for it. Every number is the median of the rounds, a ratio that of the rounds'
ratios.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from statistics import median
from typing import Any

import gin
import gymnasium as gym

import alfish
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.training.hooks import Context
from alfish.training.trainer import Trainer

SETTINGS = {
    "create_environment.env_name": "CartPole-v1",
    "create_environment.num_parallel_environments": 8,
    "TrainerConfig.unroll_length": 64,
    "TrainerConfig.mini_batch_size": 32,
    "TrainerConfig.mini_batch_length": 1,
    "TrainerConfig.num_checkpoints": 0,
    "TrainerConfig.random_seed": 0,
    "TrainerConfig.show_progress": False,
    "TrainerConfig.verbose": False,
    "TrainerConfig.eval_interval": 10,
    "TrainerConfig.num_evals": None,
}
# Only the evaluator uses it: training begins when it has told so, and is at work.
OF_THE_EVALUATOR = {"eval/create_environment.max_episode_steps": 500}
KINDS = ("off", "on", "hanging")


@alfish.configurable
class Hanging(gym.Wrapper[Any, Any, Any, Any]):
    """Never comes back from a step.

    Args:
        env: the environment.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)

    def step(self, action: Any) -> Any:
        time.sleep(1e6)


class Clock:
    """A hook that notes when iterations end, and ends the run after `number`."""

    def __init__(self, number: int) -> None:
        self.ends: list[tuple[float, float]] = []
        self._number = number

    def on_iteration_end(self, context: Context) -> None:
        self.ends.append((time.perf_counter(), time.process_time()))
        if len(self.ends) == self._number:
            os.kill(os.getpid(), signal.SIGTERM)


def iterations_per_second(kind: str, iterations: int, folder: str) -> tuple[float, float]:
    """Of the wall clock, and of the processor."""
    overrides = {**SETTINGS, "TrainerConfig.num_iterations": iterations + 10, "TrainerConfig.evaluate": kind != "off"}
    alfish.load_config(["ppo.gin"], overrides=overrides | ({} if kind == "off" else OF_THE_EVALUATOR))
    if kind == "hanging":
        with gin.unlock_config():
            gin.parse_config("eval/create_environment.wrappers = [@Hanging]")
    clock = Clock(iterations)
    Trainer(TrainerConfig(hooks=[clock]), f"{folder}/{kind}_{time.time_ns()}").train()
    wall, processor = (end - begin for begin, end in zip(clock.ends[0], clock.ends[iterations - 1], strict=True))
    return (iterations - 1) / wall, (iterations - 1) / processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    speeds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            for kind in KINDS:
                speeds[kind].append(iterations_per_second(kind, arguments.iterations, folder))
    print("evaluation   iterations/s   ratio to off   ratio in time of the processor")
    for kind, measured in speeds.items():
        pairs = list(zip(measured, speeds["off"], strict=True))
        ratios = [median(one[which] / off[which] for one, off in pairs) for which in (0, 1)]
        print(f"{kind:<10} {median(wall for wall, _ in measured):14.2f} {ratios[0]:14.3f} {ratios[1]:32.3f}")


if __name__ == "__main__":
    main()
