"""What a table of `tools/benchmark.py` may be trusted for."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import benchmark
import peers
import pytest
from workloads import alfish_runs, measuring
from workloads.contest import WORKLOADS, Contestant, Workload

import alfish

FIRST, SECOND, BEST = Contestant("first", "m"), Contestant("second", "m"), Contestant("by hand", "m", role="limit")
WORKLOAD = Workload("W0", "a test", (FIRST, SECOND, BEST))


def results(metric: str, **rounds: list[float]) -> benchmark.Results:
    measured = benchmark.Results(WORKLOAD)
    for name, values in rounds.items():
        name = name.replace("_", " ")
        measured.rounds[name] = [{metric: {"wall": value, "processor": value}} for value in values]
        measured.threads[name] = 1
    return measured


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**({"rounds": 2, "seconds": 1.0, "clock": "wall", "workloads": [], "only": None} | given))


def request_for(seconds: float, turns: measuring.Turns | None = None) -> measuring.Request:
    return measuring.Request("W0", "", 1, seconds, "", turns)


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    measured = results("env steps/s", first=[10, 20, 40], second=[20, 20, 120])
    assert benchmark.ratio(measured, "second", "first", "env steps/s", "wall") == 2.0


def test_a_larger_ratio_is_better_for_times_too() -> None:
    measured = results("add, us", first=[10], second=[5])
    assert benchmark.ratio(measured, "second", "first", "add, us", "wall") == 2.0


def test_the_limit_is_the_best_by_hand() -> None:
    measured = results("env steps/s", first=[10], second=[20], by_hand=[40])
    assert "second" in benchmark.table(measured, "wall")
    row = next(line for line in benchmark.table(measured, "wall").splitlines() if line.startswith("  second"))
    assert row.split()[-3:] == ["2.00", "0.50", "1"]


class FakeChild:
    """Answers what `speeds` has for its contestant and number of threads."""

    order: list[str]  # of the turns of all
    speeds: dict[tuple[str, int], float]

    def __init__(self, contestant: Contestant, workload: str, threads: int, seconds: float) -> None:
        self.name, self.threads = contestant.name, threads

    def turn(self) -> measuring.Metrics:
        self.order.append(self.name)
        if len(self.order) == 6:
            raise KeyboardInterrupt
        if (self.name, self.threads) not in self.speeds:
            raise benchmark.Skipped("not here")
        return {"env steps/s": {"wall": self.speeds[self.name, self.threads], "processor": 2.0}}

    def close(self) -> None:
        self.order.append(f"{self.name} ends")


def test_contestants_take_turns_and_an_interrupted_run_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(FakeChild, "order", [], raising=False)
    monkeypatch.setattr(FakeChild, "speeds", {("first", 1): 1.0, ("second", 1): 1.0}, raising=False)
    monkeypatch.setattr(benchmark, "Child", FakeChild)
    measured, file = benchmark.Results(WORKLOAD), tmp_path / "out.json"
    wishes = options(rounds=3)

    def save() -> None:
        file.write_text(json.dumps(benchmark.as_json([measured], wishes)))

    with pytest.raises(KeyboardInterrupt):
        benchmark.compare(measured, list(WORKLOAD.contestants), wishes, save)
    assert FakeChild.order[:6] == ["first", "second", "by hand", "first", "second", "first"]
    assert set(FakeChild.order[6:]) == {"first ends", "second ends", "by hand ends"}
    kept = json.loads(file.read_text())["workloads"]["W0"]
    assert kept["metrics"]["env steps/s"]["second"]["rounds"] == [1.0, 1.0]
    assert kept["skipped"] == {"by hand": "not here"}


def test_the_best_number_of_threads_is_found_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeChild, "order", [], raising=False)
    monkeypatch.setattr(FakeChild, "speeds", {("first", 1): 5.0, ("first", 2): 7.0}, raising=False)
    monkeypatch.setattr(benchmark, "Child", FakeChild)
    measured = benchmark.Results(WORKLOAD)
    benchmark.Race(measured, 1.0, "wall").turn(Contestant("first", "m", threads=(1, 2)))
    assert measured.threads == {"first": 2}
    assert measured.values("first", "env steps/s", "wall") == [7.0]


COUNTING = """
from workloads.measuring import timed_iterations

def measure(request):
    print("a library says something")
    return timed_iterations(iter(range(10**9)), request)
"""


def test_a_training_loop_waits_for_its_next_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "workloads").mkdir()
    for path in (benchmark.TOOLS / "workloads").glob("*.py"):
        (tmp_path / "workloads" / path.name).write_text(path.read_text())
    (tmp_path / "workloads" / "counting.py").write_text(COUNTING)
    monkeypatch.setattr(benchmark, "TOOLS", tmp_path)
    child = benchmark.Child(Contestant("first", "counting"), "W0", 1, 0.01)
    speeds = [child.turn()["env steps/s"]["wall"]]
    process = child._process
    assert process is not None
    time.sleep(0.5)  # would count if the loop went on meanwhile, and if the clock did
    speeds.append(child.turn()["env steps/s"]["wall"])
    assert child._process is process
    assert max(speeds) < 5 * min(speeds)
    child.close()
    assert process.returncode == 0
    child.turn()
    assert child._process is not None
    child._process.kill()
    child._process.wait()
    with pytest.raises(benchmark.Skipped, match="a library says something"):
        child.turn()
    child.close()


def test_the_last_line_of_a_failing_contestant_says_why_it_is_left_out() -> None:
    with pytest.raises(benchmark.Skipped, match=r"No module named 'workloads\.nobody'"):
        benchmark.Child(Contestant("first", "nobody"), "W0", 1, 0.01).turn()


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"W9: no such workload\. There are W1, W2"):
        benchmark.choose(options(workloads=["W9"]))
    chosen = benchmark.choose(options(workloads=["W4"], only=["alfish"]))
    assert [workload.name for workload, _ in chosen] == ["W4-SAC", "W4-TD3"]
    assert {each.role for _, who in chosen for each in who} == {"alfish"}


def test_starting_and_warming_up_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(measuring, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measuring, "process_time", lambda: now[0] / 2)

    def run(tick: Callable[[int], None]) -> None:
        slow_start = (100.0, 1.0, 1.0)
        for number, seconds in enumerate((*slow_start, *[0.5] * 20), start=1):
            now[0] += seconds
            tick(10 * number)

    assert measuring.timed(run, request_for(4.0)) == {"env steps/s": {"wall": 20.0, "processor": 40.0}}


class Given:
    """Turns that are waited for with `between`, three of them."""

    def __init__(self, between: Callable[[], None]) -> None:
        self.measured: list[measuring.Metrics] = []
        self._between = between

    def pass_on(self, metrics: measuring.Metrics) -> None:
        self.measured.append(metrics)
        if len(self.measured) == 3:
            raise measuring.Finished
        self._between()


def test_waiting_for_a_turn_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(measuring, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measuring, "process_time", lambda: now[0])

    def wait() -> None:
        now[0] += 1000.0

    def run(tick: Callable[[int], None]) -> None:
        for number in range(100):
            now[0] += 0.5
            tick(10 * number)

    turns = Given(between=wait)
    measuring.timed(run, request_for(4.0, turns))
    assert turns.measured == [{"env steps/s": {"wall": 20.0, "processor": 20.0}}] * 3


def test_every_contestant_has_its_module() -> None:
    for workload in WORKLOADS:
        for contestant in workload.contestants:
            assert importlib.util.find_spec(f"workloads.{contestant.module}"), contestant


def test_whoever_may_take_envpool_runs_where_it_is() -> None:
    for contestant in (each for workload in WORKLOADS for each in workload.contestants):
        assert contestant.home in ("", *peers.PACKAGES), contestant
        if any(backend in contestant.variant for backend in ("envpool", "fastest")):
            assert contestant.home == "peers", contestant


def test_a_peer_that_cannot_be_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def peer_python(name: str) -> Path:
        raise subprocess.CalledProcessError(1, ["pip", "install", name])

    monkeypatch.setattr(benchmark, "peer_python", peer_python)
    with pytest.raises(benchmark.Skipped, match="pip cannot make the environment 'peers'"):
        benchmark.Child(Contestant("first", "m", home="peers"), "W0", 1, 1.0).turn()


@pytest.mark.parametrize("workload", alfish_runs.CONFIGS)
def test_alfish_is_bound_to_options_that_it_has(workload: str) -> None:
    request = measuring.Request(workload, "fastest", 1, 1.0, "")
    alfish.load_config([alfish_runs.CONFIGS[workload]], overrides=alfish_runs.bindings(request))
    config = alfish.TrainerConfig()
    assert (config.evaluate, config.num_checkpoints, config.num_threads) == (False, 0, 1)
