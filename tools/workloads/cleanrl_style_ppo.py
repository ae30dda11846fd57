"""PPO in the style of CleanRL: one plain loop over torch modules. Own code that stands for the style.

Values and log-probabilities are computed at every step, distributions are torch's, mini batches are indexed from flat
tensors, and Adam and clipping are torch's defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from workloads.atari import make_atari
from workloads.measuring import Metrics, Request, timed_iterations
from workloads.settings import (
    CLIP,
    ENTROPY,
    GAMMA,
    LAMBDA,
    MAX_GRADIENT_NORM,
    PPO,
    PPO_LEARNING_RATE,
    PPO_SETTINGS,
    VALUE_WEIGHT,
)


def layer(module: Any, gain: float = 2**0.5) -> Any:
    nn.init.orthogonal_(module.weight, gain)
    nn.init.zeros_(module.bias)
    return module


def mlp(inputs: int, outputs: int, gain: float) -> nn.Module:
    return nn.Sequential(
        layer(nn.Linear(inputs, 64)),
        nn.Tanh(),
        layer(nn.Linear(64, 64)),
        nn.Tanh(),
        layer(nn.Linear(64, outputs), gain),
    )


class VectorAgent(nn.Module):
    def __init__(self, observations: int, space: gym.Space[Any]) -> None:
        super().__init__()
        self.is_discrete = isinstance(space, gym.spaces.Discrete)
        size = int(space.n) if isinstance(space, gym.spaces.Discrete) else int(np.prod(space.shape or ()))
        self.critic = mlp(observations, 1, 1.0)
        self.actor = mlp(observations, size, 0.01)
        self.log_std = nn.Parameter(torch.zeros(1, size))

    def get_value(self, x: Tensor) -> Tensor:
        return self.critic(x)

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, ...]:
        if self.is_discrete:
            choice = torch.distributions.Categorical(logits=self.actor(x))
            action = choice.sample() if action is None else action
            return action, choice.log_prob(action), choice.entropy(), self.critic(x)
        mean = self.actor(x)
        normal = torch.distributions.Normal(mean, self.log_std.expand_as(mean).exp())
        action = normal.sample() if action is None else action
        return action, normal.log_prob(action).sum(1), normal.entropy().sum(1), self.critic(x)


class ImageAgent(nn.Module):
    def __init__(self, actions: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            layer(nn.Conv2d(4, 32, 8, stride=4)),
            nn.ReLU(),
            layer(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            layer(nn.Conv2d(64, 64, 3, stride=1)),
            nn.ReLU(),
            nn.Flatten(),
            layer(nn.Linear(64 * 7 * 7, 512)),
            nn.ReLU(),
        )
        self.actor = layer(nn.Linear(512, actions), 0.01)
        self.critic = layer(nn.Linear(512, 1), 1.0)

    def get_value(self, x: Tensor) -> Tensor:
        return self.critic(self.body(x / 255.0))

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, ...]:
        hidden = self.body(x / 255.0)
        choice = torch.distributions.Categorical(logits=self.actor(hidden))
        action = choice.sample() if action is None else action
        return action, choice.log_prob(action), choice.entropy(), self.critic(hidden)


def ppo(settings: PPO) -> Iterator[int]:
    """Yields the environment steps done after every iteration."""
    torch.manual_seed(0)
    make = make_atari if settings.is_image else gym.make
    # As CleanRL has it: the environment of the next episode answers in the step in which the last one ended.
    envs: Any = gym.vector.SyncVectorEnv(
        [
            lambda: gym.wrappers.RecordEpisodeStatistics(make(settings.env_name))  # type: ignore[list-item]
            for _ in range(settings.num_envs)
        ],
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    shape, space = envs.single_observation_space.shape, envs.single_action_space
    agent: Any = ImageAgent(space.n) if settings.is_image else VectorAgent(int(np.prod(shape)), space)
    optimizer = torch.optim.Adam(agent.parameters(), lr=PPO_LEARNING_RATE, eps=1e-5)
    rows = (settings.length, settings.num_envs)
    obs, actions = torch.zeros(rows + shape), torch.zeros(rows + space.shape)
    logprobs, rewards, dones, values = (torch.zeros(rows) for _ in range(4))
    next_obs = torch.Tensor(envs.reset(seed=0)[0])
    next_done = torch.zeros(settings.num_envs)
    steps, batch = 0, settings.length * settings.num_envs
    while True:
        for t in range(settings.length):
            steps += settings.num_envs
            obs[t], dones[t] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
            actions[t], logprobs[t], values[t] = action, logprob, value.flatten()
            observation, reward, terminated, truncated, _ = envs.step(action.numpy())
            rewards[t] = torch.tensor(reward).view(-1)
            next_obs, next_done = torch.Tensor(observation), torch.Tensor(np.logical_or(terminated, truncated))

        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages = torch.zeros_like(rewards)
            last = torch.zeros(settings.num_envs)
            for t in reversed(range(settings.length)):
                goes_on = 1.0 - (next_done if t == settings.length - 1 else dones[t + 1])
                after = next_value if t == settings.length - 1 else values[t + 1]
                delta = rewards[t] + GAMMA * after * goes_on - values[t]
                advantages[t] = last = delta + GAMMA * LAMBDA * goes_on * last
            returns = advantages + values

        b_obs, b_actions = obs.reshape((-1, *shape)), actions.reshape((-1, *space.shape))
        b_logprobs, b_advantages, b_returns = logprobs.reshape(-1), advantages.reshape(-1), returns.reshape(-1)
        order = np.arange(batch)
        for _ in range(settings.passes):
            np.random.shuffle(order)
            for start in range(0, batch, settings.mini_batch):
                chosen = order[start : start + settings.mini_batch]
                taken = b_actions[chosen]
                _, logprob, entropy, value = agent.get_action_and_value(
                    b_obs[chosen], taken.long() if not space.shape else taken
                )
                ratio = (logprob - b_logprobs[chosen]).exp()
                advantage = b_advantages[chosen]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                policy_loss = torch.max(-advantage * ratio, -advantage * torch.clamp(ratio, 1 - CLIP, 1 + CLIP)).mean()
                value_loss = 0.5 * ((value.view(-1) - b_returns[chosen]) ** 2).mean()
                loss = policy_loss - ENTROPY * entropy.mean() + VALUE_WEIGHT * value_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), MAX_GRADIENT_NORM)
                optimizer.step()
        yield steps


def measure(request: Request) -> Metrics:
    return timed_iterations(ppo(PPO_SETTINGS[request.workload]), request)
