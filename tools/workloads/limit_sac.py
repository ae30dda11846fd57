"""The tightest SAC that we can write by hand, to know the limit. Variants: 'eager', and 'compile' for the whole update.

Both critics are one batched network, rows of replay are packed into one array, the actor's loss takes no gradient of
the critics, and Adam and the target update are one operation each. Acting is numpy on views of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from workloads import flat
from workloads.measuring import Metrics, Request, timed_iterations
from workloads.settings import GAMMA, OFF_POLICY_LEARNING_RATE, OFF_POLICY_SETTINGS, TAU, OffPolicy

HALF_LOG_TAU = 0.9189385332046727  # of a normal distribution's density


class Sac:
    """Parameters and losses. The temperature is the last of the actor's parameters."""

    def __init__(self, observations: int, actions: int, width: int) -> None:
        self.observations, self.actions = observations, actions
        body = [(width, width), (width,), (width, 2 * actions), (2 * actions,)]
        self.actor_shapes = [(observations, width), (width,), *body, (1,)]
        inputs = observations + actions
        self.critic_shapes = [(2, inputs, width), (2, 1, width), (2, width, width), (2, 1, width), (2, width, 1)]
        self.critic_shapes.append((2, 1, 1))
        self.actor, self.critic = flat.initial(self.actor_shapes), flat.initial(self.critic_shapes)
        self.critic[-2:] = 0
        self.target = self.critic.clone()
        self._views = [part.numpy() for part in flat.split(self.actor, self.actor_shapes)]

    def act(self, observation: Any, noise: Any) -> Any:
        w1, b1, w2, b2, w3, b3, _ = self._views
        hidden = np.maximum(observation @ w1 + b1, 0)
        out = np.maximum(hidden @ w2 + b2, 0) @ w3 + b3
        log_std = out[self.actions :].clip(-20, 2)
        return np.tanh(out[: self.actions] + np.exp(log_std) * noise)

    def sample(self, parts: list[Tensor], observation: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions and their log-probabilities."""
        w1, b1, w2, b2, w3, b3, _ = parts
        hidden = torch.addmm(b2, torch.addmm(b1, observation, w1).relu(), w2).relu()
        mean, log_std = torch.addmm(b3, hidden, w3).chunk(2, -1)
        log_std = log_std.clamp(-20, 2)
        raw = mean + log_std.exp() * noise
        action = raw.tanh()
        log_prob = -0.5 * noise * noise - log_std - HALF_LOG_TAU - torch.log1p(1e-6 - action * action)
        return action, log_prob.sum(-1)

    def value(self, parts: list[Tensor], observation: Tensor, action: Tensor) -> Tensor:
        """Of both critics, `[2, B]`."""
        w1, b1, w2, b2, w3, b3 = parts
        inputs = torch.cat([observation, action], -1).expand(2, -1, -1)
        hidden = torch.baddbmm(b2, torch.baddbmm(b1, inputs, w1).relu(), w2).relu()
        return torch.baddbmm(b3, hidden, w3).squeeze(-1)

    def target_value(self, actor: list[Tensor], target: list[Tensor], rows: Tensor, noise: Tensor) -> Tensor:
        size = self.observations
        after, reward, discount = rows[:, size : 2 * size], rows[:, -2], rows[:, -1]
        action, log_prob = self.sample(actor, after, noise)
        least = self.value(target, after, action).amin(0)
        return reward + discount * (least - actor[-1].exp() * log_prob)

    def critic_loss(self, critic: list[Tensor], rows: Tensor, target: Tensor) -> Tensor:
        error = self.value(critic, rows[:, : self.observations], rows[:, 2 * self.observations : -2]) - target
        return 0.5 * (error * error).mean(1).sum()

    def actor_loss(self, actor: list[Tensor], critic: list[Tensor], rows: Tensor, noise: Tensor) -> Tensor:
        """With that of the temperature."""
        observation = rows[:, : self.observations]
        action, log_prob = self.sample(actor, observation, noise)
        alpha = actor[-1].exp()
        loss = (alpha.detach() * log_prob - self.value(critic, observation, action).amin(0)).mean()
        return loss - (alpha * (log_prob.detach() - self.actions).mean()).sum()


def make_update(sac: Sac, compiled: bool) -> Callable[[Tensor, Tensor], None]:
    """An update takes rows `[B, ...]` and noise `[2, B, A]`."""
    if compiled:
        return _compiled_update(sac)
    actor = flat.Leaves(sac.actor, sac.actor_shapes, OFF_POLICY_LEARNING_RATE)
    critic = flat.Leaves(sac.critic, sac.critic_shapes, OFF_POLICY_LEARNING_RATE)
    fixed_critic = [part.detach() for part in critic.parts]
    target = flat.split(sac.target, sac.critic_shapes)

    def update(rows: Tensor, noise: Tensor) -> None:
        with torch.no_grad():
            wanted = sac.target_value(actor.parts, target, rows, noise[0])
        critic.step(sac.critic_loss(critic.parts, rows, wanted))
        actor.step(sac.actor_loss(actor.parts, fixed_critic, rows, noise[1]))
        sac.target.lerp_(sac.critic, TAU)

    return update


def _compiled_update(sac: Sac) -> Callable[[Tensor, Tensor], None]:
    Moments = tuple[Tensor, Tensor, Tensor]

    def update(
        actor: Tensor,
        critic: Tensor,
        target: Tensor,
        of_actor: Moments,
        of_critic: Moments,
        rows: Tensor,
        noise: Tensor,
    ) -> None:
        def critic_loss(theta: Tensor) -> Tensor:
            return sac.critic_loss(flat.split(theta, sac.critic_shapes), rows, wanted)

        def actor_loss(theta: Tensor) -> Tensor:
            fixed = flat.split(critic, sac.critic_shapes)
            return sac.actor_loss(flat.split(theta, sac.actor_shapes), fixed, rows, noise[1])

        targets = flat.split(target, sac.critic_shapes)
        wanted = sac.target_value(flat.split(actor, sac.actor_shapes), targets, rows, noise[0])
        flat.adam_(critic, torch.func.grad(critic_loss)(critic), of_critic, OFF_POLICY_LEARNING_RATE)
        flat.adam_(actor, torch.func.grad(actor_loss)(actor), of_actor, OFF_POLICY_LEARNING_RATE)
        target.lerp_(critic, TAU)

    fast = torch.compile(update, fullgraph=True)
    moments = flat.Moments(sac.actor).tensors(), flat.Moments(sac.critic).tensors()

    def step(rows: Tensor, noise: Tensor) -> None:
        with torch.no_grad():
            fast(sac.actor, sac.critic, sac.target, *moments, rows, noise)

    return step


Agent = tuple[Callable[[Any, Any], Any], Callable[[Tensor, Tensor], None]]  # acts by noise, and learns


def make_sac(observations: int, actions: int, width: int, compiled: bool) -> Agent:
    sac = Sac(observations, actions, width)
    return sac.act, make_update(sac, compiled)


def off_policy_loop(settings: OffPolicy, make: Callable[..., Agent], compiled: bool) -> Iterator[int]:
    """Yields the environment steps done after each one that is followed by an update."""
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    env = gym.make(settings.env_name)
    space: Any = env.action_space
    observations, actions = (env.observation_space.shape or (0,))[0], space.shape[0]
    act, update = make(observations, actions, settings.layers[0], compiled)
    rows = np.zeros((settings.capacity, 2 * observations + actions + 2), np.float32)
    stored = torch.from_numpy(rows)
    observation, _ = env.reset(seed=0)
    steps = 0
    while True:
        if steps < settings.warm_up:
            action = space.sample()
        else:
            action = act(observation.astype(np.float32), generator.standard_normal(actions, np.float32))
        after, reward, terminated, truncated, _ = env.step(action * space.high)
        row = rows[steps % len(rows)]
        row[:observations], row[observations : 2 * observations] = observation, after
        row[2 * observations : -2], row[-2], row[-1] = action, reward, 0.0 if terminated else GAMMA
        observation = env.reset()[0] if terminated or truncated else after
        steps += 1
        if steps > settings.warm_up:
            drawn = torch.randint(min(steps, len(rows)), (settings.batch,))
            update(stored.index_select(0, drawn), torch.randn(2, settings.batch, actions))
            yield steps


def measure(request: Request) -> Metrics:
    settings = OFF_POLICY_SETTINGS[request.workload]
    return timed_iterations(off_policy_loop(settings, make_sac, request.variant == "compile"), request)
