"""The tightest PPO that we can write by hand, to know the limit: what is not needed for learning is left out.

Acting is numpy on views of the flat parameters, noise is drawn once per unroll, values and log-probabilities are
computed in one batch after it. Variants: a backend ('sync', 'vector', 'envpool'), '+compile' for a compiled update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from workloads import flat
from workloads.atari import NATIVE_ATARI, make_atari, register_atari
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

HALF_LOG_TAU = 0.9189385332046727  # of a normal distribution's density


def make_vector(settings: PPO, backend: str) -> Any:
    """Environments that start the next episode in the step after an end."""
    number = settings.num_envs
    if backend == "vector":
        options = NATIVE_ATARI if settings.is_image else {}
        if settings.is_image:
            register_atari()
        return gym.make_vec(settings.env_name, num_envs=number, vectorization_mode="vector_entry_point", **options)
    if backend == "envpool":
        import envpool

        return envpool.make(settings.env_name, env_type="gymnasium", num_envs=number, num_threads=1)
    make: Callable[[str], gym.Env[Any, Any]] = make_atari if settings.is_image else gym.make
    return gym.vector.SyncVectorEnv([lambda: make(settings.env_name)] * number)


class Mlp:
    """Policy and value, 64x64 with tanh each."""

    def __init__(self, observations: int, outputs: int, is_discrete: bool) -> None:
        def layers(last: int) -> list[tuple[int, ...]]:
            return [(observations, 64), (64,), (64, 64), (64,), (64, last), (last,)]

        self.shapes = [*layers(outputs), *layers(1), (outputs,)]
        self.theta = flat.initial(self.shapes)
        self.is_discrete = is_discrete
        self._views = [part.numpy() for part in flat.split(self.theta, self.shapes)]

    def act(self, observation: Any, noise: Any) -> Any:
        w1, b1, w2, b2, w3, b3, *_, log_std = self._views
        hidden = np.tanh(observation @ w1 + b1)
        out = np.tanh(hidden @ w2 + b2) @ w3 + b3
        return (out + noise).argmax(1) if self.is_discrete else out + np.exp(log_std) * noise

    def forward(self, parts: list[Tensor], observation: Tensor) -> tuple[Tensor, Tensor]:
        return _mlp(parts[:6], observation), _mlp(parts[6:12], observation).squeeze(-1)


class Cnn:
    """Policy and value on one Nature CNN."""

    is_discrete = True

    def __init__(self, outputs: int) -> None:
        filters = [(32, 4, 8, 8), (32,), (64, 32, 4, 4), (64,), (64, 64, 3, 3), (64,)]
        self.shapes = [*filters, (3136, 512), (512,), (512, outputs), (outputs,), (512, 1), (1,), (outputs,)]
        self.theta = flat.initial(self.shapes)
        self._views = flat.split(self.theta, self.shapes)

    @torch.inference_mode()
    def act(self, observation: Any, noise: Any) -> Any:
        logits, _ = self.forward(self._views, torch.from_numpy(observation))
        return (logits.numpy() + noise).argmax(1)

    def forward(self, parts: list[Tensor], observation: Tensor) -> tuple[Tensor, Tensor]:
        hidden = observation.to(torch.float32, memory_format=torch.channels_last).mul_(1 / 255)
        for index, stride in ((0, 4), (2, 2), (4, 1)):
            hidden = functional.conv2d(hidden, parts[index], parts[index + 1], stride).relu_()
        hidden = torch.addmm(parts[7], hidden.flatten(1), parts[6]).relu_()
        return torch.addmm(parts[9], hidden, parts[8]), torch.addmm(parts[11], hidden, parts[10]).squeeze(-1)


def _mlp(parts: list[Tensor], x: Tensor) -> Tensor:
    w1, b1, w2, b2, w3, b3 = parts
    return torch.addmm(b3, torch.addmm(b2, torch.addmm(b1, x, w1).tanh(), w2).tanh(), w3)


def log_prob(out: Tensor, log_std: Tensor, action: Tensor, is_discrete: bool) -> tuple[Tensor, Tensor]:
    """And the entropy."""
    if is_discrete:
        logs = out.log_softmax(-1)
        return logs.gather(1, action.unsqueeze(1)).squeeze(1), -(logs.exp() * logs).sum(-1)
    scaled = (action - out) * torch.exp(-log_std)
    return (-0.5 * scaled * scaled - log_std - HALF_LOG_TAU).sum(-1), (0.5 + HALF_LOG_TAU + log_std).sum()


def loss_of(network: Mlp | Cnn, parts: list[Tensor], batch: tuple[Tensor, ...]) -> Tensor:
    observation, action, old_log_prob, advantage, target, weight = batch
    out, value = network.forward(parts, observation)
    new, entropy = log_prob(out, parts[-1], action, network.is_discrete)
    total = weight.sum()
    mean = (advantage * weight).sum() / total
    advantage = (advantage - mean) / ((((advantage - mean) ** 2 * weight).sum() / total).sqrt() + 1e-8)
    ratio = (new - old_log_prob).exp()
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
    error = value - target
    return ((0.5 * VALUE_WEIGHT * error * error - surrogate - ENTROPY * entropy) * weight).sum() / total


def make_update(network: Mlp | Cnn, compiled: bool) -> Callable[[tuple[Tensor, ...]], None]:
    if not compiled:
        leaves = flat.Leaves(network.theta, network.shapes, PPO_LEARNING_RATE, 1e-5)
        return lambda batch: leaves.step(loss_of(network, leaves.parts, batch), MAX_GRADIENT_NORM)

    def update(theta: Tensor, moments: tuple[Tensor, Tensor, Tensor], batch: tuple[Tensor, ...]) -> None:
        grad = torch.func.grad(lambda whole: loss_of(network, flat.split(whole, network.shapes), batch))(theta)
        grad = grad * (MAX_GRADIENT_NORM / (grad.norm() + 1e-6)).clamp(max=1.0)
        flat.adam_(theta, grad, moments, PPO_LEARNING_RATE, 1e-5)

    fast, moments = torch.compile(update, fullgraph=True), flat.Moments(network.theta).tensors()

    def step(batch: tuple[Tensor, ...]) -> None:
        with torch.no_grad():
            fast(network.theta, moments, batch)

    return step


def ppo(settings: PPO, backend: str, compiled: bool) -> Iterator[int]:
    """Yields the environment steps done after every iteration."""
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    envs = make_vector(settings, backend)
    space = getattr(envs, "single_action_space", envs.action_space)
    shape = getattr(envs, "single_observation_space", envs.observation_space).shape
    is_discrete = isinstance(space, gym.spaces.Discrete)
    outputs = int(space.n) if is_discrete else space.shape[0]
    network = Cnn(outputs) if settings.is_image else Mlp(shape[0], outputs, is_discrete)
    update = make_update(network, compiled)

    length, number, batch = settings.length, settings.num_envs, settings.length * settings.num_envs
    observations = np.zeros((length + 1, number, *shape), np.uint8 if settings.is_image else np.float32)
    actions = np.zeros((length, number), np.int64) if is_discrete else np.zeros((length, number, outputs), np.float32)
    rewards, terminated = np.zeros((length, number), np.float32), np.zeros((length, number), np.bool_)
    over = np.zeros((length + 1, number), np.bool_)  # row t: the step before t ended an episode
    advantages = np.zeros((length, number), np.float32)
    observations[0] = envs.reset()[0]
    steps = 0
    while True:
        kind = generator.gumbel if is_discrete else generator.standard_normal
        noise = kind(size=(length, number, outputs)).astype(np.float32)
        for t in range(length):
            action = network.act(observations[t], noise[t])
            actions[t] = action
            observations[t + 1], rewards[t], terminated[t], truncated, _ = envs.step(action)
            over[t + 1] = terminated[t] | truncated
        with torch.no_grad():
            parts = flat.split(network.theta, network.shapes)
            seen = torch.from_numpy(observations.reshape(-1, *shape))
            out, value = network.forward(parts, seen)
            taken = torch.from_numpy(actions.reshape(batch, *actions.shape[2:]))
            old, _ = log_prob(out[:batch], parts[-1], taken, is_discrete)
        values = value.view(length + 1, number).numpy()
        deltas = rewards + GAMMA * values[1:] * ~terminated - values[:-1]
        carried = (GAMMA * LAMBDA) * ~over[1:]
        advantage = np.zeros(number, np.float32)
        for t in range(length - 1, -1, -1):
            advantages[t] = advantage = deltas[t] + carried[t] * advantage
        weight = torch.from_numpy((~over[:-1]).astype(np.float32).reshape(-1))
        flat_advantages = torch.from_numpy(advantages.reshape(-1))
        columns = (seen[:batch], taken, old, flat_advantages, flat_advantages + value[:batch], weight)
        for _ in range(settings.passes):
            order = torch.randperm(batch)
            shuffled = [column.index_select(0, order) for column in columns]
            for mini_batch in zip(*(column.split(settings.mini_batch) for column in shuffled), strict=True):
                update(mini_batch)
        steps += batch - int(over[:-1].sum())  # the step that only begins an episode is none
        observations[0], over[0] = observations[length], over[length]
        yield steps


def missing(variant: str) -> str | None:
    return "envpool is not installed" if "envpool" in variant and find_spec("envpool") is None else None


def measure(request: Request) -> Metrics:
    backend, *rest = request.variant.split("+")
    return timed_iterations(ppo(PPO_SETTINGS[request.workload], backend, "compile" in rest), request)
