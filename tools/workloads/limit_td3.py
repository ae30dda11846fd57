"""The tightest TD3 that we can write by hand, to know the limit. Variants as in `limit_sac`, whose ways it shares.

The actor learns, and the targets move, after every second update of the critics; each kind of update is a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads import flat
from workloads.limit_sac import Agent, off_policy_loop
from workloads.measuring import Metrics, Request, timed_iterations
from workloads.settings import OFF_POLICY_LEARNING_RATE, OFF_POLICY_SETTINGS, TAU

EXPLORATION, SMOOTHING, MOST_SMOOTHING, DELAY = 0.1, 0.2, 0.5, 2


class Td3:
    """Parameters and losses."""

    def __init__(self, observations: int, actions: int, width: int) -> None:
        self.observations, inputs = observations, observations + actions
        self.actor_shapes = [(observations, width), (width,), (width, width), (width,), (width, actions), (actions,)]
        self.critic_shapes = [(2, inputs, width), (2, 1, width), (2, width, width), (2, 1, width), (2, width, 1)]
        self.critic_shapes.append((2, 1, 1))
        self.actor, self.critic = flat.initial(self.actor_shapes), flat.initial(self.critic_shapes)
        self.critic[-2:] = 0
        self.target_actor, self.target_critic = self.actor.clone(), self.critic.clone()
        self._views = [part.numpy() for part in flat.split(self.actor, self.actor_shapes)]

    def act(self, observation: Any, noise: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = self._views
        hidden = np.maximum(np.maximum(observation @ w1 + b1, 0) @ w2 + b2, 0)
        return (np.tanh(hidden @ w3 + b3) + EXPLORATION * noise).clip(-1, 1)

    def action(self, actor: Tensor | list[Tensor], observation: Tensor) -> Tensor:
        w1, b1, w2, b2, w3, b3 = _parts(actor, self.actor_shapes)
        hidden = torch.addmm(b2, torch.addmm(b1, observation, w1).relu(), w2).relu()
        return torch.addmm(b3, hidden, w3).tanh()

    def value(self, critic: Tensor | list[Tensor], observation: Tensor, action: Tensor, number: int = 2) -> Tensor:
        """Of the first `number` critics, `[number, B]`."""
        w1, b1, w2, b2, w3, b3 = (part[:number] for part in _parts(critic, self.critic_shapes))
        inputs = torch.cat([observation, action], -1).expand(number, -1, -1)
        hidden = torch.baddbmm(b2, torch.baddbmm(b1, inputs, w1).relu(), w2).relu()
        return torch.baddbmm(b3, hidden, w3).squeeze(-1)

    def wanted(self, rows: Tensor, noise: Tensor) -> Tensor:
        size = self.observations
        after, reward, discount = rows[:, size : 2 * size], rows[:, -2], rows[:, -1]
        smoothing = (SMOOTHING * noise[0]).clamp(-MOST_SMOOTHING, MOST_SMOOTHING)
        action = (self.action(self.target_actor, after) + smoothing).clamp(-1, 1)
        return reward + discount * self.value(self.target_critic, after, action).amin(0)

    def critic_loss(self, critic: Tensor | list[Tensor], rows: Tensor, wanted: Tensor) -> Tensor:
        error = self.value(critic, rows[:, : self.observations], rows[:, 2 * self.observations : -2]) - wanted
        return (error * error).mean(1).sum()

    def actor_loss(self, actor: Tensor | list[Tensor], critic: Tensor, rows: Tensor) -> Tensor:
        observation = rows[:, : self.observations]
        return -self.value(critic, observation, self.action(actor, observation), number=1).mean()

    def move_targets(self) -> None:
        self.target_actor.lerp_(self.actor, TAU)
        self.target_critic.lerp_(self.critic, TAU)


def _parts(theta: Tensor | list[Tensor], shapes: flat.Shapes) -> list[Tensor]:
    return theta if isinstance(theta, list) else flat.split(theta, shapes)


def _eager_update(td3: Td3) -> Callable[[Tensor, Tensor, bool], None]:
    actor = flat.Leaves(td3.actor, td3.actor_shapes, OFF_POLICY_LEARNING_RATE)
    critic = flat.Leaves(td3.critic, td3.critic_shapes, OFF_POLICY_LEARNING_RATE)

    def update(rows: Tensor, noise: Tensor, with_actor: bool) -> None:
        with torch.no_grad():
            wanted = td3.wanted(rows, noise)
        critic.step(td3.critic_loss(critic.parts, rows, wanted))
        if with_actor:
            actor.step(td3.actor_loss(actor.parts, td3.critic, rows))
            td3.move_targets()

    return update


def _compiled_update(td3: Td3) -> Callable[[Tensor, Tensor, bool], None]:
    of_actor, of_critic = flat.Moments(td3.actor).tensors(), flat.Moments(td3.critic).tensors()

    def update(rows: Tensor, noise: Tensor, with_actor: bool) -> None:
        wanted = td3.wanted(rows, noise)
        gradient = torch.func.grad(lambda theta: td3.critic_loss(theta, rows, wanted))(td3.critic)
        flat.adam_(td3.critic, gradient, of_critic, OFF_POLICY_LEARNING_RATE)
        if with_actor:
            gradient = torch.func.grad(lambda theta: td3.actor_loss(theta, td3.critic, rows))(td3.actor)
            flat.adam_(td3.actor, gradient, of_actor, OFF_POLICY_LEARNING_RATE)
            td3.move_targets()

    fast = torch.compile(update, fullgraph=True)

    def step(rows: Tensor, noise: Tensor, with_actor: bool) -> None:
        with torch.no_grad():
            fast(rows, noise, with_actor)

    return step


def make_td3(observations: int, actions: int, width: int, compiled: bool) -> Agent:
    td3 = Td3(observations, actions, width)
    update = _compiled_update(td3) if compiled else _eager_update(td3)
    updates = 0

    def learn(rows: Tensor, noise: Tensor) -> None:
        nonlocal updates
        updates += 1
        update(rows, noise, updates % DELAY == 0)

    return td3.act, learn


def measure(request: Request) -> Metrics:
    settings = OFF_POLICY_SETTINGS[request.workload]
    return timed_iterations(off_policy_loop(settings, make_td3, request.variant == "compile"), request)
