"""Time of one SAC iteration on HalfCheetah-v5 with few and with many stored rows: it should not grow.

    python tools/bench_step_time.py [--rows 10000 1000000] [--rounds 7] [--steps 100]

An iteration acts once, stores the step and makes one update of 256x256 networks with a batch of 256, with uniform and
with prioritized replay. The sizes take turns, round by round; printed is the median of the rounds in time of the
processor, with one torch thread, and its ratio to that of the fewest rows.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import thread_time

import gin
import torch

from alfish import nest
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.loading import load
from alfish.environments.create import create_environment
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.build import build_algorithm


def started(rows: int, prioritized: bool) -> RLAlgorithm:
    """SAC as configured for the task, with `rows` stored time steps."""
    with gin.unlock_config():
        gin.bind_parameter("TrainerConfig.replay_buffer_length", rows)
        gin.bind_parameter("TrainerConfig.priority_replay", prioritized)
        gin.bind_parameter("TrainerConfig.initial_collect_steps", 0)
        gin.bind_parameter("TrainerConfig.random_initial_collect", False)
    config, env, seeds, progress = TrainerConfig(), create_environment(), Seeds(0), Progress()
    algorithm = build_algorithm(config, env, seeds)
    algorithm.start(env, config, seeds, progress, Summary((), progress), Timers())
    replay = algorithm.replay
    assert replay is not None
    block = algorithm.unroll(min(1000, rows // 4))
    while replay.num_transitions < rows - 1:
        replay.add(nest.map(torch.clone, block))
    return algorithm


def seconds_of(algorithm: RLAlgorithm, steps: int) -> float:
    began = thread_time()
    for _ in range(steps):
        algorithm.train_iter()
    return (thread_time() - began) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    load(["mujoco/sac_halfcheetah.gin"])
    print(f"{'replay':<12} {'rows':>10} {'ms':>8} {'ratio':>6}")
    for prioritized in (False, True):
        algorithms = [started(rows, prioritized) for rows in options.rows]
        for algorithm in algorithms:
            seconds_of(algorithm, 20)
        times = [[seconds_of(algorithm, options.steps) for algorithm in algorithms] for _ in range(options.rounds)]
        medians = [median(column) for column in zip(*times, strict=True)]
        for rows, each in zip(options.rows, medians, strict=True):
            name = "prioritized" if prioritized else "uniform"
            print(f"{name:<12} {rows:>10,} {each * 1e3:8.2f} {each / medians[0]:6.3f}", flush=True)


if __name__ == "__main__":
    main()
