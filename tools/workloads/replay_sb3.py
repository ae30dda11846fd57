"""stable-baselines3's replay buffer. It has no priorities, and stores whole stacks of frames, which is left out."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np
from stable_baselines3.common.buffers import ReplayBuffer

from workloads.measuring import Metrics, Request, microseconds
from workloads.settings import ACTION, OBSERVATION, REPLAY_BATCH, REPLAY_ROWS


def filled(num_envs: int) -> ReplayBuffer:
    seen = gym.spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32)
    buffer = ReplayBuffer(REPLAY_ROWS, seen, gym.spaces.Box(-1, 1, (ACTION,), np.float32), "cpu", num_envs)
    for array in (buffer.observations, buffer.next_observations, buffer.actions, buffer.rewards, buffer.dones):
        array[:] = 1
    buffer.full = True
    return buffer


def adding(num_envs: int) -> Callable[[], object]:
    buffer = filled(num_envs)
    seen, action = np.ones((num_envs, OBSERVATION), np.float32), np.ones((num_envs, ACTION), np.float32)
    reward, done, infos = np.ones(num_envs, np.float32), np.zeros(num_envs, np.bool_), [{} for _ in range(num_envs)]
    return lambda: buffer.add(seen, seen, action, reward, done, infos)


def measure(request: Request) -> Metrics:
    buffer = filled(8)
    calls: dict[str, Callable[[], object]] = {"sample 256": lambda: buffer.sample(REPLAY_BATCH)}
    return microseconds(calls | {f"add {number}": adding(number) for number in (1, 8, 64)}, request.seconds)
