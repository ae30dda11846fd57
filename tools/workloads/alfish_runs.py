"""alfish, run as a user runs it: a config, bindings and `Trainer`.

Logging is off here as in all other libraries: no summaries, no evaluation, no checkpoint before the end. The variant
`summaries` writes them as the config says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

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
    OffPolicy,
)

CONFIGS = {
    "W1": "ppo.gin",
    "W2": "mujoco/ppo_halfcheetah.gin",
    "W3": "atari/ppo_pong.gin",
    "W4-SAC": "mujoco/sac_halfcheetah.gin",
    "W4-TD3": "mujoco/td3_halfcheetah.gin",
    "W5": "dqn.gin",
    "W5-prioritized": "dqn.gin",
}
QUIET = {
    "TrainerConfig.summary_interval": 10**9,
    "TrainerConfig.summarize_first_interval": False,
}
COMMON = {
    "TrainerConfig.num_iterations": 0,
    "TrainerConfig.num_env_steps": 10**9,
    "TrainerConfig.random_seed": 0,
    "TrainerConfig.evaluate": False,
    "TrainerConfig.num_evals": None,
    "TrainerConfig.num_checkpoints": 0,
    "TrainerConfig.show_progress": False,
    "TrainerConfig.verbose": False,
}
# One line makes a new variant; 'a+b' is both.
VARIANTS: dict[str, dict[str, Any]] = {
    "auto": {"create_environment.backend": "auto"},
    "vector": {"create_environment.backend": "vector"},
    "envpool": {"create_environment.backend": "envpool"},
    "fastest": {"create_environment.backend": "fastest"},
    "compile": {"TrainerConfig.compile": "on"},
    "summaries": {},
}


def bindings(request: Request) -> dict[str, Any]:
    """Everything that the config does not say, or says otherwise."""
    settings = PPO_SETTINGS.get(request.workload) or OFF_POLICY_SETTINGS[request.workload]
    sizes = _ppo(settings) if isinstance(settings, PPO) else _off_policy(settings, request.workload)
    parts = request.variant.split("+")
    chosen = {key: value for part in parts for key, value in VARIANTS[part].items()}
    return {
        **COMMON,
        **({} if "summaries" in parts else QUIET),
        **sizes,
        "TrainerConfig.num_threads": request.threads,
        **chosen,
    }


def missing(variant: str) -> str | None:
    """Why this variant cannot be run here; None when it can."""
    from alfish.algorithms.trainer_config import TrainerConfig

    parts = variant.split("+")
    if "compile" in parts and "compile" not in {field.name for field in fields(TrainerConfig)}:
        return "TrainerConfig has no option compile"
    if "envpool" in parts:
        from importlib.util import find_spec

        return None if find_spec("envpool") else "envpool is not installed"
    return None


def _ppo(settings: PPO) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        "create_environment.env_name": settings.env_name,
        "create_environment.num_parallel_environments": settings.num_envs,
        "TrainerConfig.unroll_length": settings.length,
        "TrainerConfig.num_updates_per_train_iter": settings.passes,
        "TrainerConfig.mini_batch_length": 1,
        "TrainerConfig.mini_batch_size": settings.mini_batch,
        "TrainerConfig.data_transformer_ctor": None,
        "Adam.lr": PPO_LEARNING_RATE,
        "Adam.gradient_clipping": MAX_GRADIENT_NORM,
        "PPOLoss.gamma": GAMMA,
        "PPOLoss.td_lambda": LAMBDA,
        "PPOLoss.importance_ratio_clipping": CLIP,
        "PPOLoss.entropy_regularization": ENTROPY,
    }
    return sizes


def _off_policy(settings: OffPolicy, workload: str) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        "create_environment.env_name": settings.env_name,
        "create_environment.num_parallel_environments": 1,
        "TrainerConfig.unroll_length": 1,
        "TrainerConfig.initial_collect_steps": settings.warm_up,
        "TrainerConfig.random_initial_collect": True,
        "TrainerConfig.whole_replay_buffer_training": False,
        "TrainerConfig.clear_replay_buffer": False,
        "TrainerConfig.num_updates_per_train_iter": 1,
        "TrainerConfig.mini_batch_size": settings.batch,
        "TrainerConfig.replay_buffer_length": settings.capacity,
        "TrainerConfig.priority_replay": settings.prioritized,
        "Adam.lr": OFF_POLICY_LEARNING_RATE,
        "TDLoss.gamma": GAMMA,
    }
    if workload.startswith("W5"):
        sizes |= {
            "QNetwork.fc_layer_params": settings.layers,
            "QNetwork.dueling": False,
            "DqnAlgorithm.double_q": False,
            "DqnAlgorithm.target_update_tau": 1.0,
            "DqnAlgorithm.target_update_period": settings.target_period,
            "DqnAlgorithm.rollout_epsilon_greedy": EPSILON,
            "TDLoss.num_steps": 1,
        }
    return sizes


class Ticking:
    """A hook that tells the clock how many steps are done."""

    def __init__(self, tick: Callable[[int], None], warm_up: int) -> None:
        self._tick = tick
        self._warm_up = warm_up

    def on_iteration_end(self, context: Any) -> None:
        if context.progress.env_steps > self._warm_up:
            self._tick(context.progress.env_steps)


def measured(config: str, overrides: dict[str, Any], request: Request, warm_up: int = 0) -> Metrics:
    """The speed of a run, after its first `warm_up` environment steps."""
    import alfish

    alfish.load_config([config], overrides=overrides)

    def run(tick: Callable[[int], None]) -> None:
        alfish.Trainer(alfish.TrainerConfig(hooks=[Ticking(tick, warm_up)]), f"{request.folder}/run").train()

    return timed(run, request)


def measure(request: Request) -> Metrics:
    settings = OFF_POLICY_SETTINGS.get(request.workload)
    return measured(CONFIGS[request.workload], bindings(request), request, settings.warm_up if settings else 0)
