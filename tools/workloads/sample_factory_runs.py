"""Sample Factory's PPO, synchronous and in one process: with processes of its own it is slower on two cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

from workloads.measuring import Metrics, Request, timed
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

FOREVER = 10**9


class Ticking(AlgoObserver):
    """Tells the clock how many steps are done after the updates of each unroll."""

    def __init__(self, tick: Callable[[int], None]) -> None:
        self._tick = tick

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        self._tick(sum(runner.env_steps.values()))


def make_env(name: str, *_: Any, **__: Any) -> gym.Env[Any, Any]:
    return gym.make(name)


def flags(settings: PPO, folder: str) -> list[str]:
    options = {
        "env": settings.env_name,
        "train_dir": folder,
        "experiment": "run",
        "device": "cpu",
        "seed": 0,
        "serial_mode": True,
        "async_rl": False,
        "num_workers": 1,
        "num_envs_per_worker": settings.num_envs,
        "worker_num_splits": 1,
        "rollout": settings.length,
        "num_epochs": settings.passes,
        "batch_size": settings.mini_batch,
        "num_batches_per_epoch": settings.num_envs * settings.length // settings.mini_batch,
        "shuffle_minibatches": True,
        "use_rnn": False,
        "nonlinearity": "tanh",
        "actor_critic_share_weights": False,
        "normalize_input": False,
        "normalize_returns": False,
        "reward_scale": 0.1,  # else it warns of the height of the loss at every update
        "gamma": GAMMA,
        "gae_lambda": LAMBDA,
        "ppo_clip_ratio": CLIP,
        "exploration_loss_coeff": ENTROPY,
        "value_loss_coeff": VALUE_WEIGHT,
        "max_grad_norm": MAX_GRADIENT_NORM,
        "learning_rate": PPO_LEARNING_RATE,
        "train_for_env_steps": FOREVER,
        "save_every_sec": FOREVER,
        "experiment_summaries_interval": FOREVER,
    }
    return [*(f"--{name}={value}" for name, value in options.items()), "--encoder_mlp_layers", "64", "64"]


def measure(request: Request) -> Metrics:
    settings = PPO_SETTINGS[request.workload]
    register_env(settings.env_name, make_env)
    chosen = flags(settings, request.folder)
    parser, _ = parse_sf_args(chosen)
    _, runner = make_runner(parse_full_cfg(parser, chosen))

    def run(tick: Callable[[int], None]) -> None:
        runner.register_observer(Ticking(tick))
        runner.init()
        runner.run()

    return timed(run, request)
