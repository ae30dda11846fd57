"""Evaluating a run from its folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.training.evaluator import Evaluator, create_eval_environment
from alfish.training.restored_run import RestoredRun
from alfish.training.run_folder import RunFolder
from alfish.training.supervised_evaluator import SupervisedEvaluator

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
    run = RestoredRun.open(root_dir, which, seed)
    count = num_environments or _suitable_number(num_episodes, run.config)
    with create_eval_environment(count) as env:
        algorithm = run.build_algorithm(env)
        evaluator = Evaluator(env, run.seeds.child("eval"), run.config.reward_reduction)
        returns, lengths = evaluator.evaluate(algorithm, num_episodes)
    mean = math.fsum(returns) / len(returns)
    return {
        "mean_return": mean,
        "std_return": math.sqrt(math.fsum((value - mean) ** 2 for value in returns) / len(returns)),
        "episodes": len(returns),
        "mean_length": sum(lengths) / len(lengths),
        "checkpoint": run.checkpoint.iteration,
        "env_steps": run.checkpoint.manifest["env_steps"],
    }


def is_supervised(root_dir: Path) -> bool:
    """Whether a run learned from data, rather than in environments."""
    return RunFolder(root_dir).read_run().get("ml_type") == "sl"


def evaluate_on_data(root_dir: Path, which: str = "latest") -> dict[str, Any]:
    """What a checkpoint of a supervised run comes to on its test data; everything comes from the run folder.

    Args:
        root_dir: the run folder.
        which: 'latest', 'best', or an iteration.
    """
    run = RestoredRun.open(root_dir, which, None)
    evaluator = SupervisedEvaluator(run.seeds, run.config.eval_uncertainty)
    return {**evaluator.evaluate(run.build_supervised_algorithm()), "checkpoint": run.checkpoint.iteration}


def _suitable_number(num_episodes: int, config: TrainerConfig) -> int:
    """As many environments as the run evaluated in, which repeats its episodes, if they can share them evenly."""
    if config.evaluate and num_episodes % config.num_eval_environments == 0:
        return config.num_eval_environments
    return max(number for number in range(1, _MOST_ENVIRONMENTS + 1) if num_episodes % number == 0)
