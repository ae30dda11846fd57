"""A run as its folder remembers it: for evaluation and play, which need nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.supervised.create_dataset import create_dataset
from alfish.algorithms.supervised.supervised_algorithm import SupervisedAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.loading import load
from alfish.environments.environment import Environment
from alfish.errors import CheckpointError
from alfish.seeding import Seeds
from alfish.training.build import bound_options, build_algorithm, build_supervised_algorithm
from alfish.training.checkpoint import Checkpoint
from alfish.training.checkpointer import load_model
from alfish.training.run_folder import RunFolder


@dataclass(frozen=True)
class RestoredRun:
    """A run whose configuration is loaded, and one of its checkpoints."""

    config: TrainerConfig
    checkpoint: Checkpoint
    seeds: Seeds

    @classmethod
    def open(cls, root_dir: Path, which: str, seed: int | None, bindings: Sequence[str] = ()) -> RestoredRun:
        """
        Args:
            root_dir: the run folder.
            which: checkpoint: 'latest', 'best', or an iteration.
            seed: root of the random streams; None: the run's own.
            bindings: `Name.argument=value`, in place of what the run was configured with.
        """
        folder = RunFolder.existing(root_dir)
        checkpoint = folder.checkpoints.find(which)
        load([str(folder.path / "config.gin")], bindings)
        config = bound_options()
        torch.set_num_threads(config.num_threads or 1)
        return cls(config, checkpoint, Seeds(_seed_of(folder) if seed is None else seed))

    def build_algorithm(self, env: Environment) -> RLAlgorithm:
        """The algorithm with the parameters of the checkpoint."""
        algorithm = build_algorithm(self.config, env, self.seeds)
        load_model(algorithm, self.checkpoint)
        return algorithm

    def build_supervised_algorithm(self) -> SupervisedAlgorithm:
        """The same for a run over data, with the data that it was trained and tested on."""
        algorithm = build_supervised_algorithm(self.config, create_dataset(self.seeds), self.seeds)
        load_model(algorithm, self.checkpoint)
        return algorithm


def _seed_of(folder: RunFolder) -> int:
    seed = folder.read_seed()
    if seed is None:
        raise CheckpointError(f"{folder.path / 'run.json'} holds no seed; give one with --seed")
    return seed
