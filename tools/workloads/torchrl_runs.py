"""TorchRL's PPO, put together as in its own examples: a collector, GAE, a buffer drawn from without repeats, a loss."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

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


def mlp(inputs: int, outputs: int) -> MLP:
    return MLP(in_features=inputs, out_features=outputs, num_cells=[64, 64], activation_class=nn.Tanh)


def make_envs(settings: PPO) -> GymWrapper:
    """Gymnasium's, in this process: with TorchRL's own `SerialEnv`, or with processes, it is half as fast."""
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.make(settings.env_name)] * settings.num_envs, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )
    return GymWrapper(envs, categorical_action_encoding=True)


def ppo(settings: PPO) -> Iterator[int]:
    """Discrete actions only. Yields the environment steps done after every iteration."""
    torch.manual_seed(0)
    envs = make_envs(settings)
    observations, actions = envs.observation_spec["observation"].shape[-1], envs.action_spec.space.n
    actor = ProbabilisticActor(
        TensorDictModule(mlp(observations, actions), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=envs.full_action_spec_unbatched,
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(mlp(observations, 1), in_keys=["observation"])
    rows = settings.num_envs * settings.length
    collector = Collector(envs, actor, frames_per_batch=rows, total_frames=-1)
    advantages = GAE(gamma=GAMMA, lmbda=LAMBDA, value_network=critic, average_gae=False)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(rows), sampler=SamplerWithoutReplacement(), batch_size=settings.mini_batch
    )
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=CLIP,
        entropy_coeff=ENTROPY,
        critic_coeff=VALUE_WEIGHT,
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    optimizer = torch.optim.Adam(loss.parameters(), lr=PPO_LEARNING_RATE, eps=1e-5)
    steps = 0
    for data in collector:
        with torch.no_grad():
            data = advantages(data)
        buffer.extend(data.reshape(-1))
        for _ in range(settings.passes):
            for batch in buffer:
                losses = loss(batch)
                optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_entropy"] + losses["loss_critic"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), MAX_GRADIENT_NORM)
                optimizer.step()
        steps += rows
        yield steps


def measure(request: Request) -> Metrics:
    return timed_iterations(ppo(PPO_SETTINGS[request.workload]), request)
