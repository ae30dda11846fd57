"""A finished run of a few iterations, in a folder of its own; the config that it was started with is gone."""

from __future__ import annotations

from pathlib import Path

from alfish import config
from alfish.training.trainer import Trainer

CARTPOLE = """
create_environment.env_name = "CartPole-v1"
create_environment.max_episode_steps = 12
create_environment.num_parallel_environments = 2
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.num_iterations = 4
TrainerConfig.num_checkpoints = 2
TrainerConfig.unroll_length = 16
TrainerConfig.evaluate = True
TrainerConfig.async_eval = False
TrainerConfig.num_evals = 2
TrainerConfig.num_eval_environments = 2
TrainerConfig.num_eval_episodes = 4
TrainerConfig.show_progress = False
TrainerConfig.verbose = False
PPOAlgorithm.optimizer = @Adam()
Adam.lr = 0.01
ActorDistributionNetwork.fc_layer_params = (4,)
ValueNetwork.fc_layer_params = (4,)
"""

SUPERVISED = """
TrainerConfig.ml_type = "sl"
TrainerConfig.algorithm_ctor = @EnsembleClassificationAlgorithm
TrainerConfig.num_iterations = 4
TrainerConfig.num_checkpoints = 2
TrainerConfig.mini_batch_size = 20
TrainerConfig.evaluate = True
TrainerConfig.eval_uncertainty = True
TrainerConfig.num_evals = 2
TrainerConfig.show_progress = False
TrainerConfig.verbose = False
create_dataset.data_ctor = @blobs
blobs.num_train = 50
EnsembleClassificationAlgorithm.num_members = 3
EnsembleClassificationAlgorithm.optimizer = @Adam()
EncodingNetwork.fc_layer_params = (8,)
Adam.lr = 0.01
"""


def train_run(folder: Path, text: str = CARTPOLE, name: str = "run") -> Path:
    """Trains; returns the run folder."""
    file = folder / f"{name}.gin"
    file.write_text(text)
    config.load([str(file)])
    Trainer(root_dir=str(folder / name)).train()
    config.clear()
    file.unlink()
    return folder / name
