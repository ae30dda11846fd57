"""Pong as all libraries see it: 4 x 84 x 84 grey pictures, rewards clipped, an episode per life."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


def make_atari(env_name: str) -> gym.Env[Any, Any]:
    import ale_py

    gym.register_envs(ale_py)
    env = gym.make(env_name, frameskip=1, repeat_action_probability=0.0)
    env = gym.wrappers.AtariPreprocessing(env, terminal_on_life_loss=True)
    return gym.wrappers.FrameStackObservation(gym.wrappers.ClipReward(env, -1.0, 1.0), 4)
