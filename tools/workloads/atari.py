"""Pong as all libraries see it: 4 x 84 x 84 grey pictures, rewards clipped, an episode per life."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

# The same from ale-py's own vector form.
NATIVE_ATARI = {"repeat_action_probability": 0.0, "episodic_life": True, "use_fire_reset": False}


def register_atari() -> None:
    """Not every library does so by itself."""
    import ale_py

    gym.register_envs(ale_py)


def make_atari(env_name: str) -> gym.Env[Any, Any]:
    register_atari()
    env = gym.make(env_name, frameskip=1, repeat_action_probability=0.0)
    env = gym.wrappers.AtariPreprocessing(env, terminal_on_life_loss=True)
    return gym.wrappers.FrameStackObservation(gym.wrappers.ClipReward(env, -1.0, 1.0), 4)
