"""Evaluating a run from its folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.loading import load
from alfish.errors import CheckpointError
from alfish.seeding import Seeds
from alfish.training.build import build_algorithm
from alfish.training.checkpointer import load_model
from alfish.training.evaluator import Evaluator, create_eval_environment
from alfish.training.run_folder import RunFolder

_MOST_ENVIRONMENTS = 16


def evaluate_run(
    root_dir: Path,
    num_episodes: int,
    num_environments: int | None = None,
    which: str = "latest",
    seed: int | None = None,
) -> dict[str, Any]:
    """Plays episodes with a checkpoint of a run; everything comes from the run folder.

    Args:
        root_dir: the run folder.
        num_episodes: how many to play.
        num_environments: to play them in; None: as many as the run evaluated in, or up to 16, such
            that each plays equally many.
        which: 'latest', 'best', or an iteration.
        seed: root of the episodes' seeds; None: the run's own.
    """
    folder = RunFolder.existing(root_dir)
    checkpoint = folder.checkpoints.find(which)
    load([str(folder.path / "config.gin")])
    config = TrainerConfig()
    torch.set_num_threads(config.num_threads or 1)
    seeds = Seeds(seed if seed is not None else _seed_of(folder))
    count = num_environments or _suitable_number(num_episodes, config)
    with create_eval_environment(count) as env:
        algorithm = build_algorithm(config, env, seeds)
        load_model(algorithm, checkpoint)
        returns, lengths = Evaluator(env, seeds.child("eval")).evaluate(algorithm, num_episodes)
    mean = math.fsum(returns) / len(returns)
    return {
        "mean_return": mean,
        "std_return": math.sqrt(math.fsum((value - mean) ** 2 for value in returns) / len(returns)),
        "episodes": len(returns),
        "mean_length": sum(lengths) / len(lengths),
        "checkpoint": checkpoint.iteration,
        "env_steps": checkpoint.manifest["env_steps"],
    }


def _seed_of(folder: RunFolder) -> int:
    seed = folder.read_seed()
    if seed is None:
        raise CheckpointError(f"{folder.path / 'run.json'} holds no seed; give one with --seed")
    return seed


def _suitable_number(num_episodes: int, config: TrainerConfig) -> int:
    """As many environments as the run evaluated in, which repeats its episodes, if they can share them evenly."""
    if config.evaluate and num_episodes % config.num_eval_environments == 0:
        return config.num_eval_environments
    return max(number for number in range(1, _MOST_ENVIRONMENTS + 1) if num_episodes % number == 0)
