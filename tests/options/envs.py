"""Environments, loaders and wrappers of a user's own. Imports no torch: worker processes start sooner."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from alfish.config.registry import configurable

DIARY = Path("diary.txt")


@configurable
class DiaryEnv(gym.Env[Any, Any]):
    """Writes a line into the working folder for every reset and step: what, process, monotonic time, action.

    The reward is the number of the step; the action is any number.
    """

    render_mode = None

    def __init__(self, episode_length: int = 1_000_000, reset_seconds: float = 0.0) -> None:
        """
        Args:
            episode_length: steps until the episode ends.
            reset_seconds: how long a reset takes.
        """
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._length = episode_length
        self._reset_seconds = reset_seconds
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        time.sleep(self._reset_seconds)
        self._elapsed = 0
        self._write("reset", 0)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self._elapsed += 1
        self._write("step", action)
        observation = np.full(1, self._elapsed, np.float32)
        return observation, float(self._elapsed), self._elapsed >= self._length, False, {"elapsed": self._elapsed}

    def _write(self, what: str, action: Any) -> None:
        with DIARY.open("a") as file:
            file.write(f"{what} {os.getpid()} {time.monotonic()} {action}\n")


@configurable
class WideActionEnv(gym.Env[Any, Any]):
    """One step; the reward is the action that came, which should be from -0.01 to 0.01."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Box(-0.01, 0.01, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), float(action[0]), True, False, {}


gym.register("tests/Diary-v0", DiaryEnv)
gym.register("tests/WideAction-v0", WideActionEnv)


def diary(what: str = "step") -> list[tuple[int, float, int]]:
    """Process, time and action of every line of this kind."""
    lines = [line.split() for line in DIARY.read_text().splitlines()] if DIARY.exists() else []
    return [(int(pid), float(at), int(action)) for kind, pid, at, action in lines if kind == what]


@configurable
def load_with_bonus(env_name: str, bonus: float = 0.0) -> gym.Env[Any, Any]:
    """A user's own way to make an environment.

    Args:
        env_name: a Gymnasium id.
        bonus: added to every reward.
    """
    return gym.wrappers.TransformReward(gym.make(env_name), lambda reward: float(reward) + bonus)


@configurable
def double_reward(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """A wrapper.

    Args:
        env: to be wrapped.
    """
    return gym.wrappers.TransformReward(env, lambda reward: 2.0 * float(reward))


@configurable
def add_one(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Another wrapper.

    Args:
        env: to be wrapped.
    """
    return gym.wrappers.TransformReward(env, lambda reward: float(reward) + 1.0)
