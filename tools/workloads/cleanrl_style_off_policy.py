"""SAC, TD3 and DQN in the style of CleanRL: one plain loop each. Own code that stands for the style."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads.measuring import Metrics, Request, timed_iterations
from workloads.settings import EPSILON, GAMMA, OFF_POLICY_LEARNING_RATE, OFF_POLICY_SETTINGS, TAU, OffPolicy


class Replay:
    """Rows in numpy arrays, gathered one array after the other."""

    def __init__(self, settings: OffPolicy, env: gym.Env[Any, Any]) -> None:
        rows, shape, space = settings.capacity, env.observation_space.shape or (), env.action_space
        self.obs = np.zeros((rows, *shape), np.float32)
        self.next_obs = np.zeros((rows, *shape), np.float32)
        self.actions = np.zeros((rows, *(space.shape or (1,))), space.dtype)
        self.rewards = np.zeros((rows, 1), np.float32)
        self.terminals = np.zeros((rows, 1), np.float32)
        self._count, self._batch = 0, settings.batch

    def add(self, *row: Any) -> None:
        index = self._count % len(self.obs)
        self.obs[index], self.next_obs[index], self.actions[index], self.rewards[index], self.terminals[index] = row
        self._count += 1

    def sample(self) -> list[Tensor]:
        rows = np.random.randint(0, min(self._count, len(self.obs)), self._batch)
        arrays = (self.obs, self.next_obs, self.actions, self.rewards, self.terminals)
        return [torch.tensor(array[rows]) for array in arrays]


def mlp(inputs: int, layers: tuple[int, ...], outputs: int | None) -> nn.Sequential:
    modules: list[nn.Module] = []
    for size in layers:
        modules += [nn.Linear(inputs, size), nn.ReLU()]
        inputs = size
    return nn.Sequential(*modules, *([] if outputs is None else [nn.Linear(inputs, outputs)]))


class Critic(nn.Module):
    def __init__(self, observations: int, actions: int, layers: tuple[int, ...]) -> None:
        super().__init__()
        self.net = mlp(observations + actions, layers, 1)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        return self.net(torch.cat([obs, action], 1))


class SacActor(nn.Module):
    def __init__(self, observations: int, actions: int, layers: tuple[int, ...]) -> None:
        super().__init__()
        self.net = mlp(observations, layers, None)
        self.mean, self.log_std = nn.Linear(layers[-1], actions), nn.Linear(layers[-1], actions)

    def get_action(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.net(obs)
        log_std = -5 + 0.5 * 7 * (torch.tanh(self.log_std(hidden)) + 1)
        normal = torch.distributions.Normal(self.mean(hidden), log_std.exp())
        raw = normal.rsample()
        action = torch.tanh(raw)
        return action, (normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)).sum(1, keepdim=True)


def follow(target: nn.Module, source: nn.Module) -> None:
    for behind, ahead in zip(target.parameters(), source.parameters(), strict=True):
        behind.data.copy_(TAU * ahead.data + (1 - TAU) * behind.data)


def interaction(env: gym.Env[Any, Any], settings: OffPolicy, replay: Replay, act: Any) -> Iterator[int]:
    """One environment step at a time, stored; yields how many."""
    obs, _ = env.reset(seed=0)
    steps = 0
    while True:
        action = env.action_space.sample() if steps < settings.warm_up else act(obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, next_obs, action, reward, terminated)
        obs = env.reset()[0] if terminated or truncated else next_obs
        steps += 1
        yield steps


def sac(settings: OffPolicy) -> Iterator[int]:
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(settings.env_name))
    sizes = env.observation_space.shape[0], env.action_space.shape[0], settings.layers
    actor, q1, q2 = SacActor(*sizes), Critic(*sizes), Critic(*sizes)
    target1, target2 = deepcopy(q1), deepcopy(q2)
    q_optimizer = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=OFF_POLICY_LEARNING_RATE)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=OFF_POLICY_LEARNING_RATE)
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=OFF_POLICY_LEARNING_RATE)
    replay = Replay(settings, env)

    def act(obs: Any) -> Any:
        return actor.get_action(torch.Tensor(obs)[None])[0].detach().numpy()[0]

    for steps in interaction(env, settings, replay, act):
        if steps <= settings.warm_up:
            continue
        obs, next_obs, actions, rewards, terminals = replay.sample()
        alpha = log_alpha.exp().item()
        with torch.no_grad():
            next_action, next_log_prob = actor.get_action(next_obs)
            least = torch.min(target1(next_obs, next_action), target2(next_obs, next_action)) - alpha * next_log_prob
            target = rewards + (1 - terminals) * GAMMA * least
        q_loss = functional.mse_loss(q1(obs, actions), target) + functional.mse_loss(q2(obs, actions), target)
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()
        action, log_prob = actor.get_action(obs)
        actor_loss = (alpha * log_prob - torch.min(q1(obs, action), q2(obs, action))).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        alpha_loss = (-log_alpha.exp() * (log_prob.detach() - actions.shape[1])).mean()
        alpha_optimizer.zero_grad()
        alpha_loss.backward()
        alpha_optimizer.step()
        follow(target1, q1)
        follow(target2, q2)
        yield steps


def td3(settings: OffPolicy) -> Iterator[int]:
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(settings.env_name))
    observations, actions = env.observation_space.shape[0], env.action_space.shape[0]
    actor = nn.Sequential(mlp(observations, settings.layers, actions), nn.Tanh())
    q1, q2 = (Critic(observations, actions, settings.layers) for _ in range(2))
    target_actor, target1, target2 = deepcopy(actor), deepcopy(q1), deepcopy(q2)
    q_optimizer = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=OFF_POLICY_LEARNING_RATE)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=OFF_POLICY_LEARNING_RATE)
    replay = Replay(settings, env)

    def act(obs: Any) -> Any:
        with torch.no_grad():
            action = actor(torch.Tensor(obs)[None])
            return (action + torch.normal(0, 0.1 * torch.ones_like(action))).numpy()[0].clip(-1, 1)

    for steps in interaction(env, settings, replay, act):
        if steps <= settings.warm_up:
            continue
        obs, next_obs, taken, rewards, terminals = replay.sample()
        with torch.no_grad():
            noise = (torch.randn_like(taken) * 0.2).clamp(-0.5, 0.5)
            next_action = (target_actor(next_obs) + noise).clamp(-1, 1)
            least = torch.min(target1(next_obs, next_action), target2(next_obs, next_action))
            target = rewards + (1 - terminals) * GAMMA * least
        q_loss = functional.mse_loss(q1(obs, taken), target) + functional.mse_loss(q2(obs, taken), target)
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()
        if steps % 2 == 0:
            actor_loss = -q1(obs, actor(obs)).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            for target_net, net in ((target_actor, actor), (target1, q1), (target2, q2)):
                follow(target_net, net)
        yield steps


def dqn(settings: OffPolicy) -> Iterator[int]:
    env = gym.wrappers.RecordEpisodeStatistics(gym.make(settings.env_name))
    net = mlp(env.observation_space.shape[0], settings.layers, int(env.action_space.n))
    target_net = deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=OFF_POLICY_LEARNING_RATE)
    replay = Replay(settings, env)

    def act(obs: Any) -> Any:
        if np.random.rand() < EPSILON:
            return env.action_space.sample()
        return net(torch.Tensor(obs)).argmax().item()

    for steps in interaction(env, settings, replay, act):
        if steps <= settings.warm_up:
            continue
        obs, next_obs, actions, rewards, terminals = replay.sample()
        with torch.no_grad():
            best, _ = target_net(next_obs).max(dim=1)
            target = rewards.flatten() + GAMMA * best * (1 - terminals.flatten())
        loss = functional.mse_loss(target, net(obs).gather(1, actions).squeeze())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if steps % settings.target_period == 0:
            target_net.load_state_dict(net.state_dict())
        yield steps


LOOPS = {"W4-SAC": sac, "W4-TD3": td3, "W5": dqn}


def measure(request: Request) -> Metrics:
    torch.manual_seed(0)
    return timed_iterations(LOOPS[request.workload](OFF_POLICY_SETTINGS[request.workload]), request)
