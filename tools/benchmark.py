"""alfish and its peers side by side on the same work, and beside the limit of the machine.

    python tools/benchmark.py [--workloads W1 W4] [--rounds 9] [--seconds 2] [--only alfish hand-written]
                              [--threads 1] [--clock wall] [--json FILE]

Every contestant is a process of its own. They take turns, round by round, so that whatever else the machine does
disturbs all of them alike: training loops (W1 to W5) wait for their next turn, the others begin anew. Counted is what
happens after a warm-up: starting and compiling do not count. Where several numbers of threads may be best, a first
round finds out. Nobody logs, evaluates or saves meanwhile.

A row of the table has the median of the rounds and two ratios, each the median of the rounds' ratios: to the first
row, and to the best that is written by hand (the limit). Times in microseconds are turned round, so that a larger
ratio is always better. `cleanrl-style` stands for single-file code; it is ours. `--json` is rewritten after every
measurement, so an interrupted run keeps what it has.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import IO, Any

from peers import peer_python
from workloads.contest import WORKLOADS, Contestant, Workload

TOOLS = Path(__file__).parent
PATIENCE = 20.0  # seconds for a process to end
Metrics = dict[str, dict[str, float]]


class Skipped(Exception):
    """A contestant cannot take part; says why."""


@dataclass
class Results:
    """Of one workload: by contestant, metric and clock, a number for every round; None where it failed."""

    workload: Workload
    threads: dict[str, int] = field(default_factory=dict)
    rounds: dict[str, list[Metrics]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Of the metrics, in the order in which they came."""
        return list(dict.fromkeys(name for each in self.rounds.values() for metrics in each for name in metrics))

    def values(self, contestant: str, metric: str, clock: str) -> list[float]:
        return [metrics[metric][clock] for metrics in self.rounds.get(contestant, []) if metric in metrics]


class Child:
    """A contestant's process, which begins with its first turn."""

    def __init__(self, contestant: Contestant, workload: str, threads: int, seconds: float) -> None:
        self._contestant = contestant
        self._arguments = [contestant.module, workload, f"--threads={threads}", f"--seconds={seconds}"]
        self._arguments.append(f"--variant={contestant.variant}")
        self._threads = threads
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] | None = None

    def turn(self) -> Metrics:
        """What it measures in its next turn."""
        if self._process is None:
            self._process = self._start()
        else:
            with suppress(BrokenPipeError):  # it died meanwhile; its last words say why
                print(file=self._process.stdin, flush=True)
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise Skipped(self._last_words())
        answer = json.loads(line)
        if "skipped" in answer:
            raise Skipped(answer["skipped"])
        if answer.get("is_last"):
            self.close()
        return answer["metrics"]

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with process:
                assert process.stdin
                with suppress(BrokenPipeError):
                    process.stdin.close()
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()

    def _start(self) -> subprocess.Popen[str]:
        home = self._contestant.home
        try:
            python = str(peer_python(home)) if home else sys.executable
        except subprocess.CalledProcessError as error:
            raise Skipped(f"pip cannot make the environment {home!r}, for what it says above") from error
        environment = {
            **os.environ,
            "PYTHONPATH": f"{TOOLS}:{TOOLS.parent}",
            "OMP_NUM_THREADS": str(self._threads),
            "PYTHONWARNINGS": "ignore",
        }
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        return subprocess.Popen(
            [python, "-m", "workloads.child", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )

    def _last_words(self) -> str:
        assert self._errors
        self._errors.seek(0)
        return (self._errors.read().strip().splitlines() or ["it failed"])[-1]


class Race:
    """Contestants of one workload who take turns."""

    def __init__(self, results: Results, seconds: float, clock: str) -> None:
        self._results = results
        self._seconds = seconds
        self._clock = clock
        self._children: dict[str, Child] = {}

    def turn(self, contestant: Contestant) -> str:
        """One more round of a contestant; what to say about it."""
        name, results = contestant.name, self._results
        if name not in self._children:
            results.threads[name] = self._best_threads(contestant)
            self._children[name] = self._child(contestant, results.threads[name], self._seconds)
        metrics = self._children[name].turn()
        results.rounds.setdefault(name, []).append(metrics)
        metric, first = next(iter(metrics.items()))
        return f"{first[self._clock]:,.1f} {metric}"

    def close(self) -> None:
        for child in self._children.values():
            child.close()

    def _best_threads(self, contestant: Contestant) -> int:
        if len(contestant.threads) == 1:
            return contestant.threads[0]
        speeds = {}
        for threads in contestant.threads:
            with closing(self._child(contestant, threads, self._seconds)) as child:
                speeds[threads] = _better(next(iter(child.turn().items())), self._clock)
        return max(speeds, key=lambda each: speeds[each])

    def _child(self, contestant: Contestant, threads: int, seconds: float) -> Child:
        return Child(contestant, self._results.workload.name, threads, seconds)


def _better(metric: tuple[str, dict[str, float]], clock: str) -> float:
    name, values = metric
    return -values[clock] if name.endswith(", us") else values[clock]


def ratio(results: Results, contestant: str, other: str, metric: str, clock: str) -> float | None:
    """How many times as fast as the other: the median over the rounds that both have."""
    pairs = zip(results.values(contestant, metric, clock), results.values(other, metric, clock), strict=False)
    ratios = [two / one if metric.endswith(", us") else one / two for one, two in pairs]
    return median(ratios) if ratios else None


def best_limit(results: Results, metric: str, clock: str) -> str | None:
    limits = [each.name for each in results.workload.contestants if each.role == "limit"]
    found = {name: median(values) for name in limits if (values := results.values(name, metric, clock))}
    return max(found, key=lambda name: _better((metric, {clock: found[name]}), clock), default=None)


def table(results: Results, clock: str) -> str:
    workload = results.workload
    lines = [f"\n{workload.name}: {workload.title} ({clock} clock)"]
    for metric in results.names():
        limit = best_limit(results, metric, clock)
        lines.append(f"  {metric:<34} {'median':>12} {'least':>12} {'most':>12} {'ratio':>7} {'limit':>7} threads")
        for contestant in workload.contestants:
            values = results.values(contestant.name, metric, clock)
            if not values:
                continue
            to_first = ratio(results, contestant.name, workload.reference, metric, clock)
            to_limit = None if limit is None else ratio(results, contestant.name, limit, metric, clock)
            numbers = " ".join(f"{number:12,.1f}" for number in (median(values), min(values), max(values)))
            ratios = " ".join("      -" if each is None else f"{each:7.2f}" for each in (to_first, to_limit))
            lines.append(f"  {contestant.name:<34} {numbers} {ratios} {results.threads[contestant.name]:>7}")
    lines += [f"  {name}: left out, {reason}" for name, reason in results.skipped.items()]
    return "\n".join(lines)


def as_json(all_results: list[Results], options: argparse.Namespace) -> dict[str, Any]:
    workloads = {}
    for results in all_results:
        metrics: dict[str, Any] = {}
        for metric in results.names():
            limit = best_limit(results, metric, options.clock)
            metrics[metric] = {
                name: {
                    "median": median(values),
                    "ratio": ratio(results, name, results.workload.reference, metric, options.clock),
                    "of_limit": limit and ratio(results, name, limit, metric, options.clock),
                    "rounds": values,
                }
                for name in results.rounds
                if (values := results.values(name, metric, options.clock))
            }
        workloads[results.workload.name] = {
            "title": results.workload.title,
            "reference": results.workload.reference,
            "threads": results.threads,
            "skipped": results.skipped,
            "metrics": metrics,
            "raw": results.rounds,
        }
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    settings = {"rounds": options.rounds, "seconds": options.seconds, "clock": options.clock}
    return {"machine": machine, "python": platform.python_version(), "settings": settings, "workloads": workloads}


def compare(results: Results, contestants: list[Contestant], options: argparse.Namespace, save: Any) -> None:
    with closing(Race(results, options.seconds, options.clock)) as race:
        for number in range(1, options.rounds + 1):
            for contestant in contestants:
                if contestant.name in results.skipped:
                    continue
                began = time.monotonic()
                try:
                    said = race.turn(contestant)
                except Skipped as reason:
                    results.skipped[contestant.name] = said = str(reason)
                took = time.monotonic() - began
                label = f"{results.workload.name} round {number}/{options.rounds} {contestant.name}"
                print(f"{label:<52} {said}  ({took:.0f} s)", file=sys.stderr, flush=True)
                save()


def choose(options: argparse.Namespace) -> list[tuple[Workload, list[Contestant]]]:
    """The workloads and contestants whose names begin as wished."""
    known = [workload.name for workload in WORKLOADS]
    for wish in options.workloads:
        if not any(name.startswith(wish) for name in known):
            raise SystemExit(f"--workloads {wish}: no such workload. There are {', '.join(known)}.")
    chosen = []
    for workload in WORKLOADS:
        if any(workload.name.startswith(wish) for wish in options.workloads):
            wishes = options.only or [""]
            who = [each for each in workload.contestants if any(each.name.startswith(wish) for wish in wishes)]
            chosen.append((workload, who))
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ["W1", "W2", "W3", "W4", "W5", "W6", "W7"]
    parser.add_argument("--workloads", nargs="+", default=every, help="W1 to W8; W4 means W4-SAC and W4-TD3")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn, after the warm-up")
    parser.add_argument("--only", nargs="+", help="contestants whose names begin so, e.g. alfish stable")
    parser.add_argument("--threads", type=int, help="of torch, for all; otherwise the best of each")
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall")
    parser.add_argument("--json", type=Path, help="where to write everything that was measured")
    options = parser.parse_args()
    chosen = choose(options)
    if options.threads:
        chosen = [(load, [replace(each, threads=(options.threads,)) for each in who]) for load, who in chosen]
    all_results: list[Results] = []

    def save() -> None:
        if options.json:
            options.json.write_text(json.dumps(as_json(all_results, options), indent=1) + "\n")

    try:
        for workload, contestants in chosen:
            all_results.append(Results(workload))
            compare(all_results[-1], contestants, options, save)
            print(table(all_results[-1], options.clock), flush=True)
    except KeyboardInterrupt:
        print(table(all_results[-1], options.clock))
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
