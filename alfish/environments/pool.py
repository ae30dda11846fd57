"""envpool: environments in C++ threads, for the ids it has."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np

from alfish.environments.backend_choice import usable_cores
from alfish.environments.spaces import Array
from alfish.errors import ConfigError


class EnvpoolVector:
    """An envpool behind the interface of a vector environment."""

    def __init__(self, env_name: str, num_envs: int, options: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self._env_name = env_name
        self._options = dict(options)
        self.render_mode: str | None = self._options.get("render_mode")
        self._pool = self._make(0)
        with _without_precision_warnings():
            self.single_observation_space: gym.Space[Any] = self._pool.observation_space
            self.single_action_space: gym.Space[Any] = self._pool.action_space

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            # envpool takes its seed only when it is made.
            self._pool.close()
            self._pool = self._make(seed)
        with _without_precision_warnings():
            observation, infos = self._pool.reset()
        return observation, infos

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        observation, reward, terminated, truncated, infos = self._pool.step(np.asarray(actions))
        return observation, reward, terminated, truncated, infos

    def render(self) -> Any:
        return self._pool.render()

    def close(self) -> None:
        self._pool.close()

    def _make(self, seed: int) -> Any:
        # envpool's seeds are 32-bit integers.
        options = {**self._options, "env_type": "gymnasium", "num_envs": self.num_envs, "seed": seed % 2**31}
        if _fills_the_machine(self.num_envs, options.get("num_threads", 0)):
            options.setdefault("thread_affinity_offset", 0)
        with _without_precision_warnings():
            return _envpool().make(self._env_name, **options)


def _fills_the_machine(num_envs: int, num_threads: int) -> bool:
    """Whether every core gets a thread, and there are no others that envpool's should make room for.

    Then threads are better off with a core each: left to wander they meet on one, for seconds on end, which costs up to
    a fifth. Of fewer threads all pools of a machine would sit on its first cores.

    Args:
        num_envs: of the pool.
        num_threads: as envpool understands it; 0: one per environment, as far as there are cores.
    """
    cores = usable_cores()
    return cores == os.cpu_count() and (num_threads or min(num_envs, cores)) == cores


@contextmanager
def _without_precision_warnings() -> Iterator[None]:
    """envpool's bounds are float64, and Gymnasium says for each that it makes them float32."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting")
        yield


def has_environment(env_name: str) -> bool:
    """Whether envpool is installed and has the id."""
    try:
        return env_name in _envpool().list_all_envs()
    except ConfigError:
        return False


def check_installed() -> None:
    _envpool()


def _envpool() -> Any:
    try:
        import envpool
    except ImportError as error:
        raise ConfigError(
            f"create_environment.backend='envpool' needs envpool ({error}): pip install 'alfish[envpool]'"
        ) from error
    return envpool
