from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.types import Nest, TimeStep

B = 100


def make(name: str, **env_kwargs: object) -> Environment:
    return create_environment(f"alfish/{name}-v0", num_parallel_environments=B, env_kwargs=env_kwargs)


def play(env: Environment, policy: Callable[[TimeStep], Nest], length: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """Rewards and step types `[T, B]`."""
    step = env.reset(seed=0)
    rewards, types = [], []
    for _ in range(length):
        step = env.step(policy(step))
        rewards.append(step.reward)
        types.append(step.step_type)
    return torch.stack(rewards), torch.stack(types)


def mean_reward(env: Environment, policy: Callable[[TimeStep], Nest]) -> float:
    rewards, types = play(env, policy)
    return float(rewards[types != 0].mean())


@pytest.mark.parametrize("reward_dim", [1, 3])
def test_policy(reward_dim: int) -> None:
    env = make("PolicyUnittest", reward_dim=reward_dim)
    assert env.reward_spec.shape == (() if reward_dim == 1 else (3,))
    assert mean_reward(env, lambda step: step.observation[:, 0].long()) == 1.0
    assert mean_reward(env, lambda step: 1 - step.observation[:, 0].long()) == 0.0
    assert mean_reward(env, lambda step: torch.ones(B).long()) == pytest.approx(0.5, abs=0.02)


def test_policy_continuous() -> None:
    env = make("PolicyUnittest", action_type="continuous")
    assert mean_reward(env, lambda step: step.observation) == 1.0
    assert mean_reward(env, lambda step: 0.25 + 0.5 * step.observation) == 0.75


def test_value_is_the_number_of_steps_left() -> None:
    env = make("ValueUnittest", episode_length=4)
    seen = [env.reset(seed=0)]
    seen += [env.step(torch.zeros(B).long()) for _ in range(5)]
    assert [float(step.observation[7]) for step in seen] == [4, 3, 2, 1, 0, 4]
    assert [float(step.reward[7]) for step in seen] == [0, 1, 1, 1, 1, 0]
    assert [float(step.discount[7]) for step in seen] == [1, 1, 1, 1, 0, 1]


def test_mixed_policy() -> None:
    env = make("MixedPolicyUnittest")
    half = torch.arange(B) % 2
    assert mean_reward(env, lambda step: (half, 0.2 + 0.6 * half[:, None].float())) == 1.0
    assert mean_reward(env, lambda step: (1 - half, 0.2 + 0.6 * half[:, None].float())) == 0.0


@pytest.mark.parametrize("gap", [0, 3])
def test_rnn_policy_needs_the_first_observation(gap: int) -> None:
    env = make("RNNPolicyUnittest", gap=gap, episode_length=5)
    memory = torch.zeros(B)

    def with_memory(step: TimeStep) -> torch.Tensor:
        nonlocal memory
        assert torch.equal(step.observation[:, 0] != 0, step.is_first())
        memory = torch.where(step.is_first(), step.observation[:, 0], memory)
        return (memory > 0).long()

    assert mean_reward(env, with_memory) == pytest.approx((5 - gap) / 5)
    assert mean_reward(env, lambda step: torch.ones(B).long()) == pytest.approx((5 - gap) / 10, abs=0.05)


@pytest.mark.parametrize("reward_dim", [1, 3])
def test_three_armed_bandit(reward_dim: int) -> None:
    env = make("ThreeArmedBandit", reward_dim=reward_dim)
    arms = torch.arange(B) % 3
    rewards, types = play(env, lambda step: arms, 400)
    expected = torch.tensor([0.5, 1.0, -1.0])[arms]
    for row in range(B):
        assert (rewards[:, row][types[:, row] != 0] == expected[row]).all()
    steps = types != 0
    assert float((types == 2).sum() / steps.sum()) == pytest.approx(0.2, abs=0.01)
