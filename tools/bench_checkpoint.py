"""What checkpoints cost training: the iterations after each of ten checkpoints beside as many before it.

    python tools/bench_checkpoint.py [--interval 30] [--rounds 1]

PPO on CartPole-v1 with a model of 32 MB; Adam makes 96 MB of it. The ratio says how much longer a run with a checkpoint
every `interval` iterations takes than one with none. Before and after are next to each other in one run, so that the
changing speed of the machine disturbs both alike. Wall time shows what a user sees; time of the processor shows all
that there is to do.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import alfish
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.training.hooks import CheckpointContext, Context
from alfish.training.trainer import Trainer

NUM_CHECKPOINTS = 10
SETTINGS = {
    "create_environment.env_name": "CartPole-v1",
    "create_environment.num_parallel_environments": 8,
    "ActorDistributionNetwork.fc_layer_params": (2000, 1990),
    "ValueNetwork.fc_layer_params": (2000, 1990),
    "TrainerConfig.num_env_steps": 0,
    "TrainerConfig.unroll_length": 64,
    "TrainerConfig.mini_batch_size": 64,
    "TrainerConfig.mini_batch_length": 1,
    "TrainerConfig.num_updates_per_train_iter": 1,
    "TrainerConfig.evaluate": False,
    "TrainerConfig.random_seed": 0,
    "TrainerConfig.show_progress": False,
    "TrainerConfig.verbose": False,
}


class Clock:
    """A hook that notes when iterations end, and keeps the disk from filling up."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, float]] = []  # by the wall clock and by the processor's
        self.sizes: list[int] = []  # of the models in the checkpoints

    def on_iteration_end(self, context: Context) -> None:
        self.ends.append((time.perf_counter(), time.process_time()))

    def on_checkpoint(self, context: CheckpointContext) -> None:
        self.sizes.append((context.path / "model.pt").stat().st_size)
        for file in context.path.glob("*.pt"):
            file.unlink()


def spans(interval: int, folder: Path) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Seconds before and after each checkpoint, each by both clocks."""
    between = 2 * interval
    overrides = {
        **SETTINGS,
        "TrainerConfig.num_iterations": (NUM_CHECKPOINTS + 1) * between,
        "TrainerConfig.num_checkpoints": NUM_CHECKPOINTS + 1,
    }
    alfish.load_config(["ppo.gin"], overrides=overrides)
    clock = Clock()
    Trainer(TrainerConfig(hooks=[clock]), str(folder / str(time.time_ns()))).train()
    assert len(clock.sizes) == NUM_CHECKPOINTS + 1  # one at the end, which is not counted
    assert all(31e6 < size < 33e6 for size in clock.sizes)
    pairs = []
    for number in range(1, NUM_CHECKPOINTS + 1):
        saved = number * between - 1
        begin, middle, end = (clock.ends[saved + offset] for offset in (-interval, 0, interval))
        pairs.append(((middle[0] - begin[0], middle[1] - begin[1]), (end[0] - middle[0], end[1] - middle[1])))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interval", type=int, default=30, help="iterations that a checkpoint is charged to")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            pairs += spans(arguments.interval, Path(folder))
    print(f"\n{len(pairs)} checkpoints, {arguments.interval} iterations before and after each")
    print("clock        before s   after s   ratio of sums   median ratio")
    for which, name in enumerate(("wall", "processor")):
        before, after = (sum(pair[side][which] for pair in pairs) for side in (0, 1))
        middle = median(pair[1][which] / pair[0][which] for pair in pairs)
        print(f"{name:<12} {before:8.2f} {after:9.2f} {after / before:15.3f} {middle:14.3f}")


if __name__ == "__main__":
    main()
