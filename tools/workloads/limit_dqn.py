"""The tightest DQN that we can write by hand, to know the limit. Variants: 'eager', 'compile' for the whole update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from workloads import flat
from workloads.measuring import Metrics, Request, timed_iterations
from workloads.settings import EPSILON, GAMMA, OFF_POLICY_LEARNING_RATE, OFF_POLICY_SETTINGS, OffPolicy


def q_values(parts: list[Tensor], observation: Tensor) -> Tensor:
    w1, b1, w2, b2, w3, b3 = parts
    return torch.addmm(b3, torch.addmm(b2, torch.addmm(b1, observation, w1).relu(), w2).relu(), w3)


def loss_of(parts: list[Tensor], target: list[Tensor], rows: Tensor, observations: int) -> Tensor:
    """A row is an observation, the next one, action, reward and discount."""
    with torch.no_grad():
        best = q_values(target, rows[:, observations : 2 * observations]).amax(1)
        wanted = rows[:, -2] + rows[:, -1] * best
    chosen = q_values(parts, rows[:, :observations]).gather(1, rows[:, -3:-2].long()).squeeze(1)
    error = chosen - wanted
    return (error * error).mean()


def make_update(
    theta: Tensor, target: Tensor, shapes: flat.Shapes, observations: int, compiled: bool
) -> Callable[[Tensor], None]:
    behind = flat.split(target, shapes)
    if not compiled:
        leaves = flat.Leaves(theta, shapes, OFF_POLICY_LEARNING_RATE)
        return lambda rows: leaves.step(loss_of(leaves.parts, behind, rows, observations))

    def update(theta: Tensor, target: Tensor, moments: tuple[Tensor, Tensor, Tensor], rows: Tensor) -> None:
        def loss(whole: Tensor) -> Tensor:
            return loss_of(flat.split(whole, shapes), flat.split(target, shapes), rows, observations)

        flat.adam_(theta, torch.func.grad(loss)(theta), moments, OFF_POLICY_LEARNING_RATE)

    fast, moments = torch.compile(update, fullgraph=True), flat.Moments(theta).tensors()

    def step(rows: Tensor) -> None:
        with torch.no_grad():
            fast(theta, target, moments, rows)

    return step


def dqn_loop(settings: OffPolicy, compiled: bool) -> Iterator[int]:
    """Yields the environment steps done after each one that is followed by an update."""
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    env = gym.make(settings.env_name)
    space: Any = env.action_space
    observations, width = (env.observation_space.shape or (0,))[0], settings.layers[0]
    outputs = int(space.n)
    shapes = [(observations, width), (width,), (width, width), (width,), (width, outputs), (outputs,)]
    theta = flat.initial(shapes)
    target = theta.clone()
    update = make_update(theta, target, shapes, observations, compiled)
    w1, b1, w2, b2, w3, b3 = (part.numpy() for part in flat.split(theta, shapes))
    rows = np.zeros((settings.capacity, 2 * observations + 3), np.float32)
    stored = torch.from_numpy(rows)
    observation, _ = env.reset(seed=0)
    steps = 0
    while True:
        if steps < settings.warm_up or generator.random() < EPSILON:
            action = int(generator.integers(outputs))
        else:
            hidden = np.maximum(np.maximum(observation @ w1 + b1, 0) @ w2 + b2, 0)
            action = int((hidden @ w3 + b3).argmax())
        after, reward, terminated, truncated, _ = env.step(action)
        row = rows[steps % len(rows)]
        row[:observations], row[observations : 2 * observations] = observation, after
        row[-3], row[-2], row[-1] = action, reward, 0.0 if terminated else GAMMA
        observation = env.reset()[0] if terminated or truncated else after
        steps += 1
        if steps > settings.warm_up:
            update(stored.index_select(0, torch.randint(min(steps, len(rows)), (settings.batch,))))
            if steps % settings.target_period == 0:
                target.copy_(theta)
            yield steps


def measure(request: Request) -> Metrics:
    settings = OFF_POLICY_SETTINGS[request.workload]
    return timed_iterations(dqn_loop(settings, request.variant == "compile"), request)
