"""What all adapters of Gymnasium's environments have in common."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.types import StepType

BACKENDS = ["sync", "process", "vector"]


@pytest.fixture(params=BACKENDS)
def env(request: pytest.FixtureRequest) -> Iterator[Environment]:
    with create_environment("CartPole-v1", num_parallel_environments=2, backend=request.param) as made:
        yield made


def test_specs_are_those_of_one_environment(env: Environment) -> None:
    assert (env.name, env.batch_size) == ("CartPole-v1", 2)
    assert env.observation_spec.shape == (4,)
    assert env.action_spec.num_values == 2
    assert env.reward_spec.shape == ()


def test_the_first_time_step_tells_nothing_of_before(env: Environment) -> None:
    first = env.reset(seed=3)
    assert (first.step_type == StepType.FIRST).all()
    assert first.reward.tolist() == [0, 0]
    assert first.discount.tolist() == [1, 1]
    assert first.prev_action.tolist() == [0, 0]
    assert first.env_id.tolist() == [0, 1]


def test_the_same_root_gives_the_same_episodes_and_none_goes_on_with_new_ones(env: Environment) -> None:
    one, again, following = env.reset(seed=3), env.reset(seed=3), env.reset()
    assert torch.equal(one.observation, again.observation)
    assert not torch.equal(again.observation, following.observation)


def test_without_a_seed_every_start_is_another() -> None:
    starts = [create_environment("CartPole-v1").reset().observation for _ in range(2)]
    assert not torch.equal(*starts)


def test_what_is_not_finite_is_told_without_a_warning_of_numpy() -> None:
    """In a process of its own, since pytest has its own say in warnings."""
    program = """
import gymnasium as gym, numpy as np, torch
from alfish.environments.create import create_environment

class Endless(gym.wrappers.TransformReward):
    def __init__(self, env):
        super().__init__(env, lambda reward: np.inf)

with create_environment("CartPole-v1", wrappers=[Endless]) as env:
    env.reset(seed=0)
    env.step(torch.zeros(1, dtype=torch.int64))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "returned a reward that is not finite: inf" in done.stderr
    assert "Warning" not in done.stderr
