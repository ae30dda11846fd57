"""Tianshou on the workloads of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.ppo import PPO as Ppo
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.modelfree.sac import SAC, AutoAlpha, SACPolicy
from tianshou.algorithm.modelfree.td3 import TD3
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import (
    ContinuousActorDeterministic,
    ContinuousActorProbabilistic,
    ContinuousCritic,
)
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch import nn

from workloads.atari import make_atari
from workloads.measuring import Metrics, Request, timed
from workloads.settings import (
    ALPHA,
    BETA,
    CLIP,
    ENTROPY,
    EPSILON,
    GAMMA,
    LAMBDA,
    MAX_GRADIENT_NORM,
    OFF_POLICY_LEARNING_RATE,
    OFF_POLICY_SETTINGS,
    PPO,
    PPO_LEARNING_RATE,
    PPO_SETTINGS,
    TAU,
    VALUE_WEIGHT,
    OffPolicy,
)

Tick = Callable[[int], None]


def ppo(settings: PPO, tick: Tick) -> None:
    make = make_atari if settings.is_image else gym.make
    envs = DummyVectorEnv([lambda: make(settings.env_name) for _ in range(settings.num_envs)])
    space = envs.action_space[0]
    shape = envs.observation_space[0].shape
    if settings.is_image:
        from tianshou.env.atari.atari_network import DQNet

        body = DQNet(*shape, action_shape=space.n, features_only=True, output_dim_added_layer=512)
        bodies: tuple[Any, Any] = (body, body)
    else:
        bodies = tuple(Net(state_shape=shape, hidden_sizes=[64, 64], activation=nn.Tanh) for _ in range(2))
    if isinstance(space, gym.spaces.Discrete):
        actor: Any = DiscreteActor(preprocess_net=bodies[0], action_shape=space.n, softmax_output=False)
        critic: Any = DiscreteCritic(preprocess_net=bodies[1])
        distribution: Any = lambda logits: torch.distributions.Categorical(logits=logits)  # noqa: E731
    else:
        actor = ContinuousActorProbabilistic(preprocess_net=bodies[0], action_shape=space.shape, unbounded=True)
        critic = ContinuousCritic(preprocess_net=bodies[1])
        distribution = _normal
    algorithm: Any = Ppo(
        policy=ProbabilisticActorPolicy(
            actor=actor,
            dist_fn=distribution,
            action_space=space,
            action_scaling=not isinstance(space, gym.spaces.Discrete),
            action_bound_method=None if isinstance(space, gym.spaces.Discrete) else "clip",
        ),
        critic=critic,
        optim=AdamOptimizerFactory(lr=PPO_LEARNING_RATE, eps=1e-5),
        eps_clip=CLIP,
        vf_coef=VALUE_WEIGHT,
        ent_coef=ENTROPY,
        max_grad_norm=MAX_GRADIENT_NORM,
        gae_lambda=LAMBDA,
        gamma=GAMMA,
    )
    rows = settings.num_envs * settings.length
    collector = Collector(algorithm, envs, VectorReplayBuffer(rows, settings.num_envs))
    collector.reset()
    params = OnPolicyTrainerParams(
        batch_size=settings.mini_batch,
        update_step_num_repetitions=settings.passes,
        **_trainer(collector, rows, tick),
    )
    algorithm.run_training(params)


def off_policy(settings: OffPolicy, workload: str, tick: Tick) -> None:
    envs = DummyVectorEnv([lambda: gym.make(settings.env_name)])
    env = gym.make(settings.env_name)
    algorithm = {"W4-SAC": sac, "W4-TD3": td3}.get(workload, dqn)(env, settings)
    if settings.prioritized:
        buffer: Any = PrioritizedVectorReplayBuffer(settings.capacity, 1, alpha=ALPHA, beta=BETA)
    else:
        buffer = VectorReplayBuffer(settings.capacity, 1)
    collector = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=settings.warm_up, random=True)
    algorithm.run_training(
        OffPolicyTrainerParams(
            batch_size=settings.batch,
            update_step_num_gradient_steps_per_sample=1.0,
            **_trainer(collector, 1, tick),
        )
    )


def sac(env: gym.Env[Any, Any], settings: OffPolicy) -> Any:
    shape, action_shape = env.observation_space.shape, env.action_space.shape
    adam = AdamOptimizerFactory(lr=OFF_POLICY_LEARNING_RATE)
    actor = ContinuousActorProbabilistic(
        preprocess_net=Net(state_shape=shape, hidden_sizes=settings.layers),
        action_shape=action_shape,
        unbounded=True,
        conditioned_sigma=True,
    )
    return SAC(
        policy=SACPolicy(actor=actor, action_space=env.action_space),
        policy_optim=adam,
        critic=_critic(env, settings),
        critic_optim=adam,
        critic2=_critic(env, settings),
        critic2_optim=adam,
        tau=TAU,
        gamma=GAMMA,
        alpha=AutoAlpha(-float(np.prod(action_shape)), 0.0, adam),
    )


def td3(env: gym.Env[Any, Any], settings: OffPolicy) -> Any:
    adam = AdamOptimizerFactory(lr=OFF_POLICY_LEARNING_RATE)
    actor = ContinuousActorDeterministic(
        preprocess_net=Net(state_shape=env.observation_space.shape, hidden_sizes=settings.layers),
        action_shape=env.action_space.shape,
    )
    return TD3(
        policy=ContinuousDeterministicPolicy(actor=actor, exploration_noise="default", action_space=env.action_space),
        policy_optim=adam,
        critic=_critic(env, settings),
        critic_optim=adam,
        critic2=_critic(env, settings),
        critic2_optim=adam,
        tau=TAU,
        gamma=GAMMA,
    )


def dqn(env: gym.Env[Any, Any], settings: OffPolicy) -> Any:
    net = Net(state_shape=env.observation_space.shape, action_shape=env.action_space.n, hidden_sizes=settings.layers)
    return DQN(
        policy=DiscreteQLearningPolicy(model=net, action_space=env.action_space, eps_training=EPSILON),
        optim=AdamOptimizerFactory(lr=OFF_POLICY_LEARNING_RATE),
        gamma=GAMMA,
        target_update_freq=settings.target_period,
        is_double=False,
    )


def _critic(env: gym.Env[Any, Any], settings: OffPolicy) -> Any:
    shape, action_shape = env.observation_space.shape, env.action_space.shape
    net = Net(state_shape=shape, action_shape=action_shape, hidden_sizes=settings.layers, concat=True)
    return ContinuousCritic(preprocess_net=net)


def _trainer(collector: Any, steps: int, tick: Tick) -> dict[str, Any]:
    return {
        "max_epochs": 1,
        "epoch_num_steps": 10**9,
        "training_collector": collector,
        "collection_step_num_env_steps": steps,
        "training_fn": lambda epoch, env_step: tick(env_step),
        "show_progress": False,
        "verbose": False,
    }


def _normal(parameters: Any) -> Any:
    return torch.distributions.Independent(torch.distributions.Normal(*parameters), 1)


def measure(request: Request) -> Metrics:
    if request.workload in PPO_SETTINGS:
        return timed(lambda tick: ppo(PPO_SETTINGS[request.workload], tick), request)
    settings = OFF_POLICY_SETTINGS[request.workload]
    return timed(lambda tick: off_policy(settings, request.workload, tick), request)
