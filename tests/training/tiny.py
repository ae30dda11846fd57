"""Small runs: tiny networks on toy environments, a few hundredths of a second each."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import gin
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.loading import register_all
from alfish.training.hooks import Context
from alfish.training.trainer import Trainer

TINY = """
create_environment.env_name = "alfish/PolicyUnittest-v0"
create_environment.num_parallel_environments = 4
PPOAlgorithm.optimizer = @Adam()
ActorCriticAlgorithm.optimizer = @Adam()
Adam.lr = 0.01
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""
ENDLESS = """
create_environment.env_name = "alfish/ConstantRewardProbe-v0"
ConstantRewardProbe.episode_length = 1_000_000
"""
OPTIONS = {
    "algorithm_ctor": PPOAlgorithm,
    "random_seed": 1,
    "num_iterations": 4,
    "unroll_length": 5,
    "num_updates_per_train_iter": 1,
    "show_progress": False,
    "async_eval": False,
    "verbose": False,
}
EVERY_ITERATION = {"evaluate": True, "eval_interval": 1, "num_eval_episodes": 1}
ALGORITHMS = {"ppo": {}, "a2c": {"algorithm_ctor": ActorCriticAlgorithm, "num_updates_per_train_iter": 4}}


def bind(text: str = "") -> None:
    """Binds what the options of a run do not say: environment, networks, optimizer."""
    _register()
    gin.parse_config(TINY + text)


_register = cache(register_all)


def make(root_dir: str | Path = "run", **options: Any) -> Trainer:
    return Trainer(TrainerConfig(**{**OPTIONS, **options}), str(root_dir))


def train(root_dir: str | Path = "run", **options: Any) -> Trainer:
    """A trainer that has done its work."""
    trainer = make(root_dir, **options)
    trainer.train()
    return trainer


def weights(trainer: Trainer | Context) -> torch.Tensor:
    """A copy of all parameters."""
    return torch.nn.utils.parameters_to_vector(trainer.algorithm.parameters()).detach().clone()


def rows(path: str | Path) -> list[dict[str, str]]:
    """A table, one dict per row."""
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def column(path: str | Path, name: str = "iterations") -> list[float]:
    return [float(row[name]) for row in rows(path) if row[name]]


def events(path: str | Path) -> EventAccumulator:
    return EventAccumulator(str(path), size_guidance={"scalars": 0, "histograms": 0}).Reload()


def steps(path: str | Path, tag: str = "Metrics/EnvironmentSteps") -> list[int]:
    """At which iterations TensorBoard shows a value."""
    return [event.step for event in events(path).Scalars(tag)]


def saved(root_dir: str | Path = "run") -> list[int]:
    """The iterations that have a checkpoint."""
    return sorted(int(path.name) for path in (Path(root_dir) / "checkpoints").iterdir() if path.name.isdigit())
