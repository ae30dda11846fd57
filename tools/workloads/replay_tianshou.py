"""Tianshou's replay buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tianshou.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer

from workloads.measuring import Metrics, Request, microseconds
from workloads.settings import ACTION, ALPHA, BETA, OBSERVATION, REPLAY_BATCH, REPLAY_FRAMES, REPLAY_ROWS


def step(num_envs: int, observation: Any) -> Batch:
    seen = np.repeat(observation[None], num_envs, 0)
    return Batch(
        obs=seen,
        obs_next=seen,
        act=np.ones((num_envs, ACTION), np.float32),
        rew=np.ones(num_envs),
        terminated=np.zeros(num_envs, np.bool_),
        truncated=np.zeros(num_envs, np.bool_),
        info=Batch(),
    )


def fill(buffer: Any, num_envs: int, observation: Any) -> Any:
    """Adding a million rows one after the other takes minutes; the state after it is set instead."""
    buffer.add(step(num_envs, observation))
    meta = buffer._meta
    for array in (meta.obs, meta.act, meta.rew):
        array[:] = 1
    for part in buffer.buffers:
        part._size = part.maxsize
        buffer._lengths[:] = part.maxsize
    return buffer


def adding(buffer: Any, num_envs: int, observation: Any) -> Callable[[], object]:
    batch = step(num_envs, observation)
    return lambda: buffer.add(batch)


def measure(request: Request) -> Metrics:
    row, frame = np.ones(OBSERVATION, np.float32), np.zeros((84, 84), np.uint8)
    uniform = {number: fill(VectorReplayBuffer(REPLAY_ROWS, number), number, row) for number in (1, 8, 64)}
    ranked = fill(PrioritizedVectorReplayBuffer(REPLAY_ROWS, 8, alpha=ALPHA, beta=BETA), 8, row)
    ranked.init_weight(np.arange(REPLAY_ROWS))
    frames = VectorReplayBuffer(REPLAY_FRAMES, 8, stack_num=4, ignore_obs_next=True)
    fill(frames, 8, frame)
    chosen, priority = np.random.randint(0, REPLAY_ROWS, REPLAY_BATCH), np.random.rand(REPLAY_BATCH)
    calls: dict[str, Callable[[], object]] = {
        "sample 256": lambda: uniform[8].sample(REPLAY_BATCH),
        **{f"add {number}": adding(buffer, number, row) for number, buffer in uniform.items()},
        "prioritized sample 256": lambda: ranked.sample(REPLAY_BATCH),
        "prioritized update 256": lambda: ranked.update_weight(chosen, priority),
        "prioritized sample, then update 256": lambda: ranked.update_weight(ranked.sample(REPLAY_BATCH)[1], priority),
        "prioritized add 8": adding(ranked, 8, row),
        "stacks of frames 32": lambda: frames.get(frames.sample_indices(32), "obs"),
        "stacks of frames 256": lambda: frames.get(frames.sample_indices(256), "obs"),
        "frames add 8": adding(frames, 8, frame),
    }
    return microseconds(calls, request.seconds)
