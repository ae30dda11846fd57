"""An environment that breaks in a given way, at a given place, a given number of times."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from alfish.config.registry import configurable

_constructed = itertools.count()


class TwoArguments(Exception):
    """Cannot be made again from its `args`, as unpickling tries to."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class HoldsLambda(Exception):
    """Cannot be pickled."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.callback = lambda: None


def local_exception() -> Exception:
    class Local(Exception):
        pass

    return Local("known here only")


class FaultEnv(gym.Env[Any, Any]):
    """Random observations, reward 1, a time limit of 20 steps; and the fault.

    Args:
        mode: what happens; "": nothing.
        index: in which environment.
        step: in which step of an episode; 0: in the reset.
        times: how often, over all environments and processes, as counted in `folder`.
        folder: gets a file per fault, `0`, `1`, ..., with the monotonic time and the process id.
        reset_seconds: how long a reset takes.
    """

    def __init__(self, mode: str, index: int, step: int, times: int, folder: str, reset_seconds: float) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._mode = mode
        self._is_chosen = _index_here() == index
        self._fault_step = step
        self._times = times
        self._folder = folder
        self._reset_seconds = reset_seconds
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        time.sleep(self._reset_seconds)
        self._steps = 0
        return self._break(self._observe(), 0.0)[0], {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        observation, reward = self._break(self._observe(), 1.0)
        return observation, reward, False, self._steps == 20, {}

    def _observe(self) -> Any:
        return self.np_random.standard_normal(3).astype(np.float32)

    def _break(self, observation: Any, reward: Any) -> tuple[Any, Any]:
        if not (self._mode and self._is_chosen and self._steps == self._fault_step and self._claim()):
            return observation, reward
        match self._mode:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(7)
            case "hang":
                time.sleep(1000)
            case "raise":
                raise ValueError("the wheel came off")
            case "raise two arguments":
                raise TwoArguments("this", "that")
            case "raise lambda":
                raise HoldsLambda("with a callback")
            case "raise local":
                raise local_exception()
            case "nan":
                return observation * np.nan, reward
            case "inf reward":
                return observation, np.inf
            case "short":
                return observation[:1], reward
            case "long":
                return np.zeros(4, np.float32), reward
            case "dtype":
                return observation.astype(np.complex64), reward
        raise AssertionError(f"no such mode: {self._mode}")

    def _claim(self) -> bool:
        """Whether this fault is one of those that shall happen."""
        for number in range(self._times):
            try:
                with (Path(self._folder) / str(number)).open("x") as file:
                    file.write(f"{time.monotonic()} {os.getpid()}")
                return True
            except FileExistsError:
                continue
        return False


def _index_here() -> int:
    """Environments do not know their index: processes have it in their name, others are counted."""
    found = re.search(r"environment (\d+)$", multiprocessing.current_process().name)
    return int(found[1]) if found else next(_constructed)


@configurable
def load_fault_env(
    env_name: str,
    mode: str = "",
    index: int = 1,
    step: int = 5,
    times: int = 1,
    folder: str = "",
    reset_seconds: float = 0.0,
) -> gym.Env[Any, Any]:
    """A `FaultEnv`.

    Args:
        env_name: not used.
        mode: what happens; "": nothing.
        index: in which environment.
        step: in which step of an episode; 0: in the reset.
        times: how often.
        folder: where faults are counted.
        reset_seconds: how long a reset takes.
    """
    return FaultEnv(mode, index, step, times, folder, reset_seconds)
