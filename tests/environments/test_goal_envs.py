from __future__ import annotations

import numpy as np
import torch

from alfish.environments.create import create_environment
from alfish.environments.goal_envs import BitFlippingEnv, PointGoalEnv


def test_the_point_moves_by_the_step_size_and_stays_in_the_square() -> None:
    env = PointGoalEnv(step_size=0.1)
    before = env.reset(seed=0)[0]["observation"]
    after = env.step(np.array([0.5, -3.0]))[0]["achieved_goal"]
    np.testing.assert_allclose(after - before, [0.05, -0.1], atol=1e-6)
    for _ in range(25):
        at_edge = env.step(np.array([1.0, -1.0]))[0]["observation"]
    np.testing.assert_array_equal(at_edge, [1.0, -1.0])


def test_going_straight_to_the_goal_earns_zeros_from_there_on() -> None:
    env = PointGoalEnv()
    observation, _ = env.reset(seed=3)
    rewards = []
    over = False
    while not over:
        way = observation["desired_goal"] - observation["achieved_goal"]
        observation, reward, terminated, over, info = env.step(way / 0.1)
        assert not terminated
        assert info["is_success"] == reward + 1
        rewards.append(reward)
    needed = rewards.count(-1.0)
    assert len(rewards) == 30
    assert needed <= 20  # the square is 2 wide, and a step 0.1
    assert rewards == [-1.0] * needed + [0.0] * (30 - needed)


def test_a_bit_is_flipped_and_the_goal_row_is_worth_zero() -> None:
    env = BitFlippingEnv(num_bits=4)
    observation, _ = env.reset(seed=1)
    wrong = np.flatnonzero(observation["observation"] != observation["desired_goal"])
    assert len(wrong)
    rewards = [env.step(bit)[1] for bit in wrong]
    assert rewards == [-1.0] * (len(wrong) - 1) + [0.0]
    env.reset(seed=1)
    assert [env.step(0)[3] for _ in range(4)] == [False, False, False, True]


def test_they_are_registered() -> None:
    with create_environment("alfish/PointGoal-v0", num_parallel_environments=2, info_keys=["is_success"]) as env:
        assert set(env.observation_spec) == {"observation", "achieved_goal", "desired_goal"}
        env.reset(seed=0)
        step = env.step(torch.zeros(2, 2))
    assert torch.equal(step.env_info["is_success"], step.reward + 1)
    with create_environment("alfish/BitFlipping-v0", env_kwargs={"num_bits": 7}) as env:
        assert env.action_spec.num_values == 7
