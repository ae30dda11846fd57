"""What checkpoints cost training: time for the same iterations with ten checkpoints, and with none.

    python tools/bench_checkpoint.py [--interval 30] [--rounds 3]

PPO on CartPole-v1 with a model of 32 MB; Adam makes 96 MB of it. The two kinds take turns, so that other programs on
the machine disturb both alike. Counted is the time from the end of the first iteration to the end of the interval
after the tenth checkpoint, which is whole by then; the run is told to end there. Wall time shows what a user sees, if
there is a free core for the writer; time of the processor shows all that there is to do. Every number is the median of
the rounds, a ratio that of the rounds' ratios. The longer the run, the less ten checkpoints matter.
"""

from __future__ import annotations

import argparse
import os
import signal
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
    """A hook that notes when iterations end, ends the run after `number`, and keeps the disk from filling up."""

    def __init__(self, number: int) -> None:
        self.ends: list[tuple[float, float]] = []
        self.sizes: list[int] = []  # of the models in the checkpoints
        self._number = number

    def on_iteration_end(self, context: Context) -> None:
        self.ends.append((time.perf_counter(), time.process_time()))
        if len(self.ends) == self._number:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_checkpoint(self, context: CheckpointContext) -> None:
        if len(self.ends) < self._number:
            self.sizes.append((context.path / "model.pt").stat().st_size)
        for file in context.path.glob("*.pt"):
            file.unlink()


def seconds(num_checkpoints: int, interval: int, folder: Path) -> tuple[float, float]:
    """Of the wall clock, and of the processor."""
    number = (NUM_CHECKPOINTS + 1) * interval - 1
    overrides = {
        **SETTINGS,
        "TrainerConfig.num_iterations": (NUM_CHECKPOINTS + 1) * interval,
        "TrainerConfig.num_checkpoints": num_checkpoints and num_checkpoints + 1,
    }
    alfish.load_config(["ppo.gin"], overrides=overrides)
    clock = Clock(number)
    Trainer(TrainerConfig(hooks=[clock]), str(folder / str(time.time_ns()))).train()
    assert len(clock.sizes) == num_checkpoints, f"{len(clock.sizes)} checkpoints: --interval is too short for the disk"
    assert all(31e6 < size < 33e6 for size in clock.sizes)
    wall, processor = (end - begin for begin, end in zip(clock.ends[0], clock.ends[number - 1], strict=True))
    return wall, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interval", type=int, default=30, help="iterations between checkpoints")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    measured: dict[int, list[tuple[float, float]]] = {0: [], NUM_CHECKPOINTS: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            for number, times in measured.items():
                times.append(seconds(number, arguments.interval, Path(folder)))
                print(f"{number} checkpoints: {times[-1][0]:.2f} s, {times[-1][1]:.2f} s of the processor", flush=True)
    print("\ncheckpoints   seconds   ratio to none   processor seconds   ratio")
    for number, times in measured.items():
        pairs = list(zip(times, measured[0], strict=True))
        wall, processor = (median(each[which] for each in times) for which in (0, 1))
        ratios = [median(one[which] / none[which] for one, none in pairs) for which in (0, 1)]
        print(f"{number:11} {wall:9.2f} {ratios[0]:15.3f} {processor:19.2f} {ratios[1]:7.3f}")
    pairs = list(zip(measured[0], measured[NUM_CHECKPOINTS], strict=True))
    wall, processor = (median((ten[which] - none[which]) / NUM_CHECKPOINTS for none, ten in pairs) for which in (0, 1))
    print(f"a checkpoint costs {wall:.2f} s, {processor:.2f} s of the processor")


if __name__ == "__main__":
    main()
