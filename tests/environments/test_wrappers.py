from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish.environments.create import create_environment
from alfish.environments.wrappers import (
    ActionMaskInObservation,
    FrameSkip,
    FrameStack,
    ImageChannelFirst,
    MaskVelocity,
    TimeLimit,
)
from alfish.errors import ConfigError
from tests.environments.scripted import MID, TERMINATED, ScriptedEnv


@pytest.mark.parametrize(
    ("env_name", "kept"),
    [("CartPole-v1", [1, 0, 1, 0]), ("Pendulum-v1", [1, 1, 0]), ("MountainCar-v0", [1, 0])],
)
def test_velocities_are_masked(env_name: str, kept: list[int]) -> None:
    plain = gym.make(env_name)
    masked = MaskVelocity(gym.make(env_name))
    start = plain.reset(seed=1)[0], masked.reset(seed=1)[0]
    np.testing.assert_array_equal(start[0] * kept, start[1])
    action = plain.action_space.sample()
    for _ in range(5):
        np.testing.assert_array_equal(plain.step(action)[0] * kept, masked.step(action)[0])


def test_masking_an_unknown_environment() -> None:
    with pytest.raises(ConfigError, match=r"where the velocities of ScriptedEnv are.*Set MaskVelocity\.indices"):
        MaskVelocity(ScriptedEnv())
    masked = MaskVelocity(ScriptedEnv([MID] * 3), indices=[1])
    masked.reset(seed=0)
    assert masked.step(0)[0].tolist() == [0, 0]


def test_frame_skip_sums_rewards_and_stops_at_the_end() -> None:
    env = FrameSkip(ScriptedEnv([MID, MID, TERMINATED]), skip=2)
    env.reset(seed=0)
    assert env.step(1)[1:4] == (1 + 2, False, False)
    assert env.step(1)[1:4] == (3, True, False)


def test_frame_stack_starts_with_copies() -> None:
    env = FrameStack(ScriptedEnv([MID] * 3), stack_size=3)
    assert env.reset(seed=0)[0].tolist() == [[0, 0], [0, 0], [0, 0]]
    assert env.step(0)[0].tolist() == [[0, 0], [0, 0], [0, 1]]


def test_time_limit_truncates() -> None:
    env = TimeLimit(ScriptedEnv([MID] * 3), max_episode_steps=2)
    env.reset(seed=0)
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == (False, True)


def test_channel_first() -> None:
    class Camera(ScriptedEnv):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gym.spaces.Box(0, 255, (4, 5, 3), np.uint8)

        def _observe(self) -> Any:
            return np.arange(60, dtype=np.uint8).reshape(4, 5, 3)

    env = ImageChannelFirst(Camera())
    picture = env.reset(seed=0)[0]
    assert env.observation_space.contains(np.ascontiguousarray(picture))
    assert picture[2, 1, 3] == (1 * 5 + 3) * 3 + 2
    with pytest.raises(ConfigError, match="needs a picture"):
        ImageChannelFirst(ScriptedEnv())


def test_action_mask_of_taxi() -> None:
    env = create_environment("Taxi-v4", num_parallel_environments=2, wrappers=[ActionMaskInObservation])
    taxi = gym.make("Taxi-v4")
    step = env.reset(seed=0)
    assert set(step.observation) == {"observation", "action_mask"}
    for _ in range(20):
        for row in range(2):
            state = int(step.observation["observation"][row])
            expected = taxi.unwrapped.action_mask(state)  # type: ignore[attr-defined]
            assert step.observation["action_mask"][row].tolist() == expected.tolist()
        step = env.step(torch.tensor([0, 3]))
    with pytest.raises(ConfigError, match="needs a Discrete action space"):
        ActionMaskInObservation(gym.make("Pendulum-v1"))
