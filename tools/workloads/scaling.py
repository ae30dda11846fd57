"""How alfish grows: with the number of environments, the rows stored, and the length of recurrent sequences."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from time import perf_counter, process_time
from typing import Any

from workloads.alfish_runs import VARIANTS, bindings, measured
from workloads.measuring import SPEED, Metrics, Request

ENVIRONMENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ROWS = (10_000, 100_000, 1_000_000)
LENGTHS = (1, 4, 16, 64, 128)
UNROLL = 1024  # rows per iteration, however many environments share them
ITERATIONS = 10  # in one round
ROUNDS = 9


def environments(request: Request) -> Metrics:
    """Env steps/s of PPO: the same number of rows and updates per iteration."""
    metrics: Metrics = {}
    for number in ENVIRONMENTS:
        sizes = {
            "create_environment.num_parallel_environments": number,
            "TrainerConfig.unroll_length": UNROLL // number,
        }
        overrides = bindings(replace(request, workload="W1")) | sizes
        speed = measured("ppo.gin", overrides, replace(request, folder=f"{request.folder}/{number}"))
        metrics[f"{number} environments, {SPEED}"] = speed[SPEED]
    return metrics


def stored_rows() -> Metrics:
    """Microseconds of an iteration of SAC: act, store, update. All take turns; the median of the rounds."""
    from bench_step_time import started

    from alfish.config.loading import load

    load(["mujoco/sac_halfcheetah.gin"])
    algorithms = {
        f"{rows} rows, {kind}, us": started(rows, prioritized=kind == "prioritized")
        for kind in ("uniform", "prioritized")
        for rows in ROWS
    }
    rounds = [{name: _iteration(algorithm) for name, algorithm in algorithms.items()} for _ in range(1 + ROUNDS)]
    metrics: Metrics = {}
    for name in algorithms:
        times = [each[name] for each in rounds[1:]]  # the first one warms up
        metrics[name] = {clock: median(each[clock] for each in times) for clock in times[0]}
    return metrics


def _iteration(algorithm: Any) -> dict[str, float]:
    """Microseconds of one, by clock."""
    wall, processor = perf_counter(), process_time()
    for _ in range(ITERATIONS):
        algorithm.train_iter()
    seconds = {"wall": perf_counter() - wall, "processor": process_time() - processor}
    return {clock: each / ITERATIONS * 1e6 for clock, each in seconds.items()}


def recurrent_lengths(request: Request) -> Metrics:
    """Env steps/s of PPO with an LSTM: the same number of rows per mini batch, in longer sequences."""
    metrics: Metrics = {}
    for length in LENGTHS:
        sizes = {"TrainerConfig.mini_batch_length": length, "TrainerConfig.mini_batch_size": 256 // length or 1}
        overrides = bindings(replace(request, workload="W1")) | sizes
        overrides.pop("create_environment.env_name")
        where = replace(request, folder=f"{request.folder}/lstm{length}")
        speed = measured("classic_control/ppo_lstm_masked_cartpole.gin", overrides, where)
        metrics[f"sequences of {length}, {SPEED}"] = speed[SPEED]
    return metrics


def measure(request: Request) -> Metrics:
    parts = len(ENVIRONMENTS) + len(LENGTHS)
    each = replace(request, seconds=request.seconds / parts, turns=None)
    metrics = environments(each)
    # The others do not depend on the backend, so that once is enough.
    return (
        metrics if request.variant != next(iter(VARIANTS)) else {**metrics, **recurrent_lengths(each), **stored_rows()}
    )
