"""cpprb's replay buffers, written in C++."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from workloads.measuring import Metrics, Request, microseconds
from workloads.settings import ACTION, ALPHA, BETA, OBSERVATION, REPLAY_BATCH, REPLAY_ROWS

FIELDS = {"obs": OBSERVATION, "next_obs": OBSERVATION, "act": ACTION, "rew": 1, "done": 1}


def missing(variant: str) -> str | None:
    return None if find_spec("cpprb") else "cpprb is not installed"


def step(number: int) -> dict[str, Any]:
    return {name: np.ones((number, size), np.float32) for name, size in FIELDS.items()}


def adding(buffer: Any, number: int) -> Callable[[], object]:
    batch = step(number)
    return lambda: buffer.add(**batch)


def measure(request: Request) -> Metrics:
    import cpprb

    fields = {name: {"shape": size} for name, size in FIELDS.items()}
    uniform, ranked = (
        cpprb.ReplayBuffer(REPLAY_ROWS, fields),
        cpprb.PrioritizedReplayBuffer(REPLAY_ROWS, fields, alpha=ALPHA),
    )
    for _ in range(REPLAY_ROWS // 1000):
        uniform.add(**step(1000))
        ranked.add(**step(1000))
    chosen, priority = np.random.randint(0, REPLAY_ROWS, REPLAY_BATCH), np.random.rand(REPLAY_BATCH)

    def both() -> None:
        ranked.update_priorities(ranked.sample(REPLAY_BATCH, beta=BETA)["indexes"], priority)

    calls: dict[str, Callable[[], object]] = {
        "sample 256": lambda: uniform.sample(REPLAY_BATCH),
        **{f"add {number}": adding(uniform, number) for number in (1, 8, 64)},
        "prioritized sample 256": lambda: ranked.sample(REPLAY_BATCH, beta=BETA),
        "prioritized update 256": lambda: ranked.update_priorities(chosen, priority),
        "prioritized sample, then update 256": both,
        "prioritized add 8": adding(ranked, 8),
    }
    return microseconds(calls, request.seconds)
