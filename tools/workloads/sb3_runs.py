"""stable-baselines3 on the workloads of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3 import PPO as Ppo
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack

from workloads.atari import register_atari
from workloads.measuring import Metrics, Request, timed
from workloads.settings import (
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

FOREVER = 10**9


class Ticking(BaseCallback):
    """Tells the clock how many steps are done whenever a rollout begins, which is after the updates of the last."""

    def __init__(self, tick: Callable[[int], None], warm_up: int) -> None:
        super().__init__()
        self._tick = tick
        self._warm_up = warm_up

    def _on_rollout_start(self) -> None:
        if self.num_timesteps > self._warm_up:
            self._tick(self.num_timesteps)

    def _on_step(self) -> bool:
        return True


def ppo(settings: PPO) -> Any:
    if settings.is_image:
        register_atari()
        env: Any = VecFrameStack(make_atari_env(settings.env_name, settings.num_envs, seed=0), 4)
    else:
        env = make_vec_env(settings.env_name, settings.num_envs, seed=0)
    return Ppo(
        "CnnPolicy" if settings.is_image else "MlpPolicy",
        env,
        learning_rate=PPO_LEARNING_RATE,
        n_steps=settings.length,
        batch_size=settings.mini_batch,
        n_epochs=settings.passes,
        gamma=GAMMA,
        gae_lambda=LAMBDA,
        clip_range=CLIP,
        ent_coef=ENTROPY,
        vf_coef=VALUE_WEIGHT,
        max_grad_norm=MAX_GRADIENT_NORM,
        policy_kwargs=None if settings.is_image else {"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
        seed=0,
        device="cpu",
    )


def off_policy(settings: OffPolicy, workload: str) -> Any:
    common: dict[str, Any] = {
        "learning_rate": OFF_POLICY_LEARNING_RATE,
        "buffer_size": settings.capacity,
        "learning_starts": settings.warm_up,
        "batch_size": settings.batch,
        "gamma": GAMMA,
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": list(settings.layers)},
        "seed": 0,
        "device": "cpu",
    }
    env = gym.make(settings.env_name)
    if workload == "W4-SAC":
        return SAC("MlpPolicy", env, tau=TAU, **common)
    if workload == "W4-TD3":
        return TD3("MlpPolicy", env, tau=TAU, **common)
    exploring = {"exploration_initial_eps": EPSILON, "exploration_final_eps": EPSILON}
    return DQN("MlpPolicy", env, tau=1.0, target_update_interval=settings.target_period, **exploring, **common)


def measure(request: Request) -> Metrics:
    if request.workload in PPO_SETTINGS:
        model, warm_up = ppo(PPO_SETTINGS[request.workload]), 0
    else:
        settings = OFF_POLICY_SETTINGS[request.workload]
        model, warm_up = off_policy(settings, request.workload), settings.warm_up
    return timed(lambda tick: model.learn(FOREVER, callback=Ticking(tick, warm_up)), request)
