"""Is alfish still as fast as it was? Ratios against loops written by hand, in less than three minutes.

    python tools/bench_quick.py [--rounds 15] [--record]

PPO on CartPole-v1 (W1), SAC on HalfCheetah-v5 (W4) and replay (W6) as in `tools/benchmark.py`. Both sides do a little
work in turns, in one process with one thread, and only time of the processor counts, so that a busy machine slows
both alike; a ratio is the median of the rounds. 1 means as fast as the loop by hand. The exit code is 1 when a ratio is
more than 25 % below the one in `tools/bench_quick.json`, and again so in two more attempts. `--record` writes that
file: do it after a change that makes alfish faster, or slower for a good reason.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import process_time

RECORD = Path(__file__).with_name("bench_quick.json")
TOLERANCE = 0.25
ATTEMPTS = 3
REPLAY_ROWS = 200_000

Ratios = dict[str, float]


def alfish_steps(workload: str, folder: str, chunk: int) -> Generator[int, None, None]:
    """A run of alfish; yields the environment steps done after every `chunk` of them."""
    from workloads.alfish_runs import CONFIGS, bindings
    from workloads.measuring import Request

    import alfish

    overrides = bindings(Request(workload, "auto", 1, 0.0, folder)) | {
        "TrainerConfig.num_env_steps": 0,
        "TrainerConfig.num_epochs": 10**6,
        "TrainerConfig.num_steps_per_epoch": chunk,
    }
    if workload.startswith("W4"):
        overrides["TrainerConfig.replay_buffer_length"] = 10_000
    alfish.load_config([CONFIGS[workload]], overrides=overrides)
    trainer = alfish.Trainer(root_dir=f"{folder}/{workload}")
    for _ in trainer:
        yield trainer.progress.env_steps


def seconds_per_step(counts: Iterator[int], before: int, least: int) -> tuple[float, int]:
    """Of the processor, for at least so many steps; and the steps done in all."""
    began, count = process_time(), before
    while count < before + least:
        count = next(counts)
    return (process_time() - began) / (count - before), count


def loop_ratio(own: Iterator[int], by_hand: Iterator[int], steps: int, rounds: int) -> float:
    """How many times as fast as the loop by hand."""
    done = [next(own), next(by_hand)]
    ratios = []
    for number in range(rounds + 2):
        of_own, done[0] = seconds_per_step(own, done[0], steps)
        of_hand, done[1] = seconds_per_step(by_hand, done[1], steps)
        if number >= 2:  # the first two warm up
            ratios.append(of_hand / of_own)
    return median(ratios)


def call_ratio(own: Callable[[], object], by_hand: Callable[[], object], rounds: int, repeats: int = 100) -> float:
    ratios = []
    for number in range(rounds + 2):
        times = []
        for call in (own, by_hand):
            began = process_time()
            for _ in range(repeats):
                call()
            times.append(process_time() - began)
        if number >= 2:
            ratios.append(times[1] / times[0])
    return median(ratios)


def w1(rounds: int, folder: str) -> Ratios:
    from workloads.limit_ppo import ppo
    from workloads.settings import PPO_SETTINGS

    settings = PPO_SETTINGS["W1"]
    steps = settings.num_envs * settings.length // 2  # less than an iteration has, so that it is one
    with closing(alfish_steps("W1", folder, steps)) as own:
        return {"W1 PPO": loop_ratio(own, ppo(settings, "sync", compiled=False), steps, rounds)}


def w4(rounds: int, folder: str) -> Ratios:
    from workloads.limit_sac import make_sac, off_policy_loop
    from workloads.settings import OFF_POLICY_SETTINGS

    settings = replace(OFF_POLICY_SETTINGS["W4-SAC"], capacity=10_000)
    with closing(alfish_steps("W4-SAC", folder, 10)) as own:
        while next(own) <= settings.warm_up:
            pass
        return {"W4 SAC": loop_ratio(own, off_policy_loop(settings, make_sac, compiled=False), 10, rounds)}


def w6(rounds: int, folder: str) -> Ratios:
    from workloads import replay_alfish, replay_limit

    own = replay_alfish.uniform_calls(REPLAY_ROWS) | replay_alfish.prioritized_calls(REPLAY_ROWS)
    by_hand = replay_limit.uniform_calls(REPLAY_ROWS) | replay_limit.prioritized_calls(REPLAY_ROWS)
    names = ("sample 256", "add 8", "prioritized sample 256", "prioritized update 256")
    return {f"W6 {name}": call_ratio(own[name], by_hand[name], rounds) for name in names}


PARTS: dict[str, Callable[[int, str], Ratios]] = {"W1": w1, "W4": w4, "W6": w6}


def losses(ratios: Ratios, recorded: Ratios) -> list[str]:
    """What is clearly slower than it was."""
    return [name for name, ratio in ratios.items() if ratio < (1 - TOLERANCE) * recorded.get(name, 0.0)]


def judge(part: Callable[[int, str], Ratios], recorded: Ratios, rounds: int) -> tuple[Ratios, list[str]]:
    """The best ratios of as many attempts as it takes, and what stays clearly slower than it was."""
    best: Ratios = {}
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory() as folder:
            ratios = part(rounds, folder)
        best = {name: max(ratio, best.get(name, 0.0)) for name, ratio in ratios.items()}
        if not losses(best, recorded):
            break
    return best, losses(best, recorded)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--workloads", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)

    import torch

    torch.set_num_threads(1)
    recorded: Ratios = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    measured: Ratios = {}
    lost: list[str] = []
    print(f"{'times as fast as by hand':<28} {'now':>8} {'recorded':>9}")
    for name in options.workloads:
        ratios, slower = judge(PARTS[name], {} if options.record else recorded, options.rounds)
        measured |= ratios
        lost += slower
        for each, ratio in ratios.items():
            before = f"{recorded[each]:9.3f}" if each in recorded else f"{'-':>9}"
            print(f"{each:<28} {ratio:8.3f} {before}{'  slower' if each in slower else ''}", flush=True)
    if options.record:
        kept = {name: round(ratio, 3) for name, ratio in (recorded | measured).items()}
        RECORD.write_text(json.dumps(kept, indent=1) + "\n")
    if lost:
        print(
            f"{', '.join(lost)}: more than {TOLERANCE:.0%} slower than recorded. If that is meant to be, "
            "`python tools/bench_quick.py --record` makes it the new measure.",
            file=sys.stderr,
        )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
