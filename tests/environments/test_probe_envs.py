from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.types import TimeStep


def make(name: str, **env_kwargs: object) -> Environment:
    return create_environment(f"alfish/{name}-v0", num_parallel_environments=20, env_kwargs=env_kwargs)


def rollout(env: Environment, action: torch.Tensor, length: int) -> list[TimeStep]:
    return [env.reset(seed=0), *(env.step(action) for _ in range(length))]


def fitted_value(env: Environment, discount: float) -> float:
    """The value that TD(0) with one parameter converges to: v = mean(r + discount * d * v) over the steps taken."""
    steps = rollout(env, torch.zeros(20).long(), 40)
    taken = [(step.reward[0], step.discount[0]) for step in steps if not step.is_first()[0]]
    rewards = torch.stack([reward for reward, _ in taken]).mean()
    kept = torch.stack([kept for _, kept in taken]).mean()
    return float(rewards / (1 - discount * kept))


@pytest.mark.parametrize("length", [1, 4])
def test_a_time_limit_bootstraps_and_an_end_does_not(length: int) -> None:
    endless = fitted_value(make("ConstantRewardProbe", reward=2.0, episode_length=length, truncates=True), 0.9)
    assert endless == pytest.approx(2.0 / (1 - 0.9), rel=1e-5)
    ending = fitted_value(make("ConstantRewardProbe", reward=2.0, episode_length=1), 0.9)
    assert ending == pytest.approx(2.0)


def test_reward_told_by_the_observation() -> None:
    steps = rollout(make("ObservationRewardProbe"), torch.zeros(20).long(), 30)
    for before, after in pairwise(steps):
        if before.is_first()[0]:
            assert torch.equal(after.reward, before.observation[:, 0])
            assert (after.discount == 0).all()
    assert {-1.0, 1.0} == set(steps[1].reward.tolist())


def test_delayed_reward() -> None:
    steps = rollout(make("DelayedRewardProbe"), torch.zeros(20).long(), 3)
    assert [float(step.observation[3]) for step in steps] == [0, 1, 1, 0]
    assert [float(step.reward[3]) for step in steps] == [0, 0, 1, 0]
    assert [float(step.discount[3]) for step in steps] == [1, 1, 0, 1]


def test_reward_told_by_the_action() -> None:
    action = torch.arange(20) % 2
    step = rollout(make("ActionRewardProbe"), action, 1)[1]
    assert torch.equal(step.reward, action.float() * 2 - 1)
    assert step.is_last().all()


def test_reward_told_by_both() -> None:
    env = make("MatchingProbe")
    first = env.reset(seed=0)
    right = (first.observation[:, 0] > 0).long()
    wrong_for_some = torch.where(torch.arange(20) < 5, 1 - right, right)
    assert env.step(wrong_for_some).reward.tolist() == [-1.0] * 5 + [1.0] * 15
