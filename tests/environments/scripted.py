"""Environments whose every step is written down in the test."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import gymnasium as gym
import numpy as np

from alfish.config.registry import configurable

MID = (False, False)
TERMINATED = (True, False)
TRUNCATED = (False, True)
BOTH = (True, True)


class ScriptedEnv(gym.Env[Any, Any]):
    """Step k of an episode gives reward `10 * episode + k` and the end that `script[k - 1]` says.

    The observation is (episode, step), in float64; `actions` are those received.
    """

    def __init__(self, script: Any = (MID, TERMINATED), action_space: gym.Space[Any] | None = None) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = action_space or gym.spaces.Discrete(5)
        self.script = script
        self.episode = -1
        self.actions: list[Any] = []
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode += 1
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        terminated, truncated = self.script[self.steps]
        self.steps += 1
        info = {"steps": self.steps, "has_torch": "torch" in sys.modules}
        return self._observe(), 10.0 * self.episode + self.steps, terminated, truncated, info

    def _observe(self) -> Any:
        return np.array([self.episode, self.steps], np.float64)


class NoisyEnv(gym.Env[Any, Any]):
    """Nested observations, actions and lengths from the episode's random numbers; vector reward when asked."""

    def __init__(self, vector_reward: bool = False) -> None:
        self.observation_space = gym.spaces.Dict(
            {
                "place": gym.spaces.Box(-np.inf, np.inf, (3,), np.float64),
                "parts": gym.spaces.Tuple((gym.spaces.Discrete(4), gym.spaces.Box(0, 255, (2, 2), np.uint8))),
            }
        )
        self.action_space = gym.spaces.Dict(
            {
                "push": gym.spaces.Box(-1.0, 1.0, (2,), np.float64),
                "choose": gym.spaces.Tuple((gym.spaces.Discrete(3), gym.spaces.MultiBinary(2))),
            }
        )
        if vector_reward:
            self.reward_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self._is_vector = vector_reward

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._observe(), {"luck": self.np_random.random()}

    def step(self, action: Any) -> Any:
        number, bits = action["choose"]
        reward = float(action["push"].sum() + number + bits.sum())
        draw = self.np_random.random()
        return self._observe(), np.array([reward, -reward]) if self._is_vector else reward, draw < 0.1, draw > 0.9, {}

    def _observe(self) -> Any:
        draw = self.np_random
        return {
            "parts": (draw.integers(4), draw.integers(0, 256, (2, 2)).astype(np.uint8)),
            "place": draw.standard_normal(3),
        }


class LocalTrouble(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(first, second)
        self.unpicklable = lambda: None


class BrokenEnv(ScriptedEnv):
    """Misbehaves in the third step, when the action is 2."""

    def __init__(self, how: str = "raise") -> None:
        super().__init__(script=[MID] * 10)
        self.how = how

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        if self.steps == 3 and action == 2:
            if self.how == "raise":
                raise LocalTrouble("the wheel", "came off")
            if self.how == "die":
                os._exit(7)
            if self.how == "hang":
                time.sleep(1000)
            if self.how == "shape":
                observation = np.zeros(3)
            if self.how == "reward":
                reward = np.zeros(2)
            if self.how == "nan":
                observation = observation * np.nan
            if self.how == "infinite reward":
                reward = np.inf
        return observation, reward, terminated, truncated, info


@configurable
def load_scripted(env_name: str, bonus: float = 0.0) -> gym.Env[Any, Any]:
    """Args:
    env_name: not used.
    bonus: added to every reward.
    """
    return gym.wrappers.TransformReward(
        ScriptedEnv(script=[MID] * 4 + [TERMINATED]), lambda reward: float(reward) + bonus
    )


def load_noisy(env_name: str) -> gym.Env[Any, Any]:
    return NoisyEnv(vector_reward=env_name == "vector")


def load_broken(env_name: str) -> gym.Env[Any, Any]:
    return BrokenEnv(env_name)
