"""SAC of a peer on a MuJoCo task; prints the returns of its final policy as JSON.

Run by `tools/compare_sac.py` with the interpreter of `tools/peers.py`. Settings are those of
`configs/mujoco/sac_halfcheetah.gin`, but for the warm-up, which is an argument.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch

LAYERS = [256, 256]
LEARNING_RATE = 3e-4
GAMMA = 0.99
TAU = 0.005
BATCH = 256
CAPACITY = 1_000_000

Policy = Callable[[Any], Any]


def train_stable_baselines3(env_name: str, steps: int, warm_up: int, seed: int) -> Policy:
    from stable_baselines3 import SAC

    model = SAC(
        "MlpPolicy",
        gym.make(env_name),
        learning_rate=LEARNING_RATE,
        buffer_size=CAPACITY,
        learning_starts=warm_up,
        batch_size=BATCH,
        tau=TAU,
        gamma=GAMMA,
        policy_kwargs={"net_arch": LAYERS},
        seed=seed,
        device="cpu",
    )
    model.learn(steps)
    return lambda observation: model.predict(observation, deterministic=True)[0]


def train_tianshou(env_name: str, steps: int, warm_up: int, seed: int) -> Policy:
    from tianshou.algorithm.modelfree.sac import SAC, AutoAlpha, SACPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainerParams
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic

    np.random.seed(seed)
    torch.manual_seed(seed)
    env = gym.make(env_name)
    shape, action_shape = env.observation_space.shape, env.action_space.shape

    def critic() -> Any:
        net = Net(state_shape=shape, action_shape=action_shape, hidden_sizes=LAYERS, concat=True)
        return ContinuousCritic(preprocess_net=net)

    actor = ContinuousActorProbabilistic(
        preprocess_net=Net(state_shape=shape, hidden_sizes=LAYERS),
        action_shape=action_shape,
        unbounded=True,
        conditioned_sigma=True,
    )
    adam = AdamOptimizerFactory(lr=LEARNING_RATE)
    algorithm = SAC(
        policy=SACPolicy(actor=actor, action_space=env.action_space),
        policy_optim=adam,
        critic=critic(),
        critic_optim=adam,
        critic2=critic(),
        critic2_optim=adam,
        tau=TAU,
        gamma=GAMMA,
        alpha=AutoAlpha(-float(np.prod(action_shape)), 0.0, adam),
    )
    environments = DummyVectorEnv([lambda: gym.make(env_name)])
    environments.seed(seed)
    collector = Collector(algorithm, environments, VectorReplayBuffer(CAPACITY, 1), exploration_noise=True)
    collector.reset()
    collector.collect(n_step=warm_up, random=True)
    algorithm.run_training(
        OffPolicyTrainerParams(
            max_epochs=1,
            epoch_num_steps=steps - warm_up,
            training_collector=collector,
            collection_step_num_env_steps=1,
            batch_size=BATCH,
            update_step_num_gradient_steps_per_sample=1.0,
            show_progress=False,
            verbose=False,
        )
    )
    policy = algorithm.policy.eval()

    def act(observation: Any) -> Any:
        with torch.no_grad():
            action = policy(Batch(obs=observation[None].astype(np.float32), info={})).act
        return policy.map_action(action.numpy())[0]

    return act


PEERS = {"stable-baselines3": train_stable_baselines3, "tianshou": train_tianshou}


def returns_of(policy: Policy, env_name: str, episodes: int) -> list[float]:
    env, returns = gym.make(env_name), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=10_000 + episode)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(policy(observation))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=PEERS, required=True)
    parser.add_argument("--env_name", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warm_up", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--episodes", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    policy = PEERS[options.library](options.env_name, options.steps, options.warm_up, options.seed)
    seconds = time.monotonic() - began
    print(json.dumps({"returns": returns_of(policy, options.env_name, options.episodes), "seconds": seconds}))


if __name__ == "__main__":
    main()
