"""How long alfish takes to answer: `--help`, `list`, and the first iteration of a training.

    python tools/bench_startup.py [--rounds 5] [--clock processor]

The promise is 0.5 s for the first two, which import no torch, and 4 s for the end of the first iteration of `ppo.gin`.
Printed are the least and the median of the rounds; the exit code is 1 when the least is above its limit. Time of the
processor, the default, is what alfish has to do; `--clock wall` is what a user waits on the machine as it is now.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from statistics import median

ONE_ITERATION = (
    "TrainerConfig.num_iterations=1",
    "TrainerConfig.num_env_steps=0",
    "TrainerConfig.num_checkpoints=0",
    "TrainerConfig.evaluate=False",
)


@dataclass(frozen=True)
class Command:
    name: str
    argv: tuple[str, ...]
    limit: float  # seconds


COMMANDS = (
    Command("python -m alfish.train --help", ("-m", "alfish.train", "--help"), 0.5),
    Command("alfish list", ("-m", "alfish.cli", "list"), 0.5),
    Command("ppo.gin, one iteration", ("-m", "alfish.train", "--gin_file=ppo.gin", *ONE_ITERATION), 4.0),
)


def seconds(command: Command, clock: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        before, began = os.times(), time.perf_counter()
        done = subprocess.run([sys.executable, *command.argv], cwd=folder, capture_output=True, text=True)
        wall, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise SystemExit(f"{command.name}\n{done.stderr}")
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall if clock == "wall" else spent


def imports_torch(command: Command) -> bool:
    """Whether a torch comes with it."""
    listed = subprocess.run([sys.executable, "-X", "importtime", *command.argv], capture_output=True, text=True)
    return any(line.rpartition("|")[2].strip() == "torch" for line in listed.stderr.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=["wall", "processor"], default="processor")
    options = parser.parse_args()
    times: dict[str, list[float]] = {command.name: [] for command in COMMANDS}
    for _ in range(options.rounds):
        for command in COMMANDS:
            times[command.name].append(seconds(command, options.clock))
    is_slow = False
    print(f"{f'seconds, {options.clock} clock':<34} {'least':>7} {'median':>7} {'limit':>6}")
    for command in COMMANDS:
        measured = times[command.name]
        words = "  too slow" if min(measured) > command.limit else ""
        if command.limit < 1 and imports_torch(command):
            words += "  imports torch"
        is_slow |= bool(words)
        print(f"{command.name:<34} {min(measured):7.2f} {median(measured):7.2f} {command.limit:6.1f}{words}")
    return int(is_slow)


if __name__ == "__main__":
    sys.exit(main())
