"""A run that is stopped and gone on with is the run that was never stopped, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gin
import pytest
import torch

from alfish import nest
from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.sac import SacAlgorithm
from alfish.algorithms.transformers.normalizers import ObservationNormalizer
from alfish.training.trainer import Trainer
from tests.environments.forgetful import Forgetful
from tests.training import tiny

CARTPOLE = """
create_environment.env_name = "CartPole-v1"
create_environment.num_parallel_environments = 3
"""
PENDULUM = """
create_environment.env_name = "Pendulum-v1"
create_environment.num_parallel_environments = 2
create_environment.max_episode_steps = 30
SacAlgorithm.actor_network_ctor = @ActorDistributionNetwork
SacAlgorithm.critic_network_ctor = @CriticNetwork
SacAlgorithm.optimizer = @Adam()
ActorDistributionNetwork.continuous_projection_net_ctor = @StableNormalProjectionNetwork
CriticNetwork.joint_fc_layer_params = (8,)
"""
REPLAYED = {
    "whole_replay_buffer_training": False,
    "clear_replay_buffer": False,
    "mini_batch_size": 16,
    "priority_replay": True,
    "replay_buffer_length": 60,
    "initial_collect_steps": 20,
}
DQN = CARTPOLE + "DqnAlgorithm.optimizer = @Adam()\nQNetwork.fc_layer_params = (8,)"
LSTM = """
create_environment.wrappers = [@MaskVelocity]
PPOAlgorithm.actor_network_ctor = @ActorDistributionRnnNetwork
PPOAlgorithm.value_network_ctor = @ValueRnnNetwork
ActorDistributionRnnNetwork.lstm_hidden_size = 4
ValueRnnNetwork.lstm_hidden_size = 4
"""
SHARED = """
PPOAlgorithm.encoding_network_ctor = @GRUEncodingNetwork
GRUEncodingNetwork.hidden_size = 4
"""
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": (CARTPOLE, {"algorithm_ctor": PPOAlgorithm, "num_updates_per_train_iter": 2, "unroll_length": 7.5}),
    "a2c": (CARTPOLE, tiny.ALGORITHMS["a2c"]),
    "sac": (PENDULUM, {"algorithm_ctor": SacAlgorithm, "random_initial_collect": True, **REPLAYED}),
    "dqn": (DQN, {"algorithm_ctor": DqnAlgorithm, **REPLAYED}),
    "ppo_lstm": (CARTPOLE + LSTM, {"algorithm_ctor": PPOAlgorithm, "use_rollout_state": True}),
    "ppo_shared": (CARTPOLE + SHARED, {"algorithm_ctor": PPOAlgorithm, "use_rollout_state": True}),
}
BACKENDS = ["sync", "process"]


def state_of(trainer: Trainer) -> dict[str, Any]:
    """Everything that decides how the run goes on, by name."""
    algorithm = trainer.algorithm
    state = {
        "model": algorithm.state_dict(),
        "optimizer": {name: each.state_dict() for name, each in algorithm.loop.updater.ownership.optimizers.items()},
        "run": algorithm.run_state(),
        "replay": algorithm.replay.state_dict() if algorithm.replay else {},
        "progress": trainer.progress.state_dict(),
    }
    return nest.named_leaves(_in_lists_and_dicts(state))


def _in_lists_and_dicts(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _in_lists_and_dicts(child) for key, child in value.items()}
    return [_in_lists_and_dicts(child) for child in value] if isinstance(value, (list, tuple)) else value


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert set(one) == set(other)
    for name, value in one.items():
        same = torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name]
        assert same, name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", RUNS)
def test_stopping_twice_changes_no_bit(name: str, backend: str, tmp_path: Path) -> None:
    text, options = RUNS[name]
    tiny.bind(f'{text}\ncreate_environment.backend = "{backend}"')
    whole = tiny.train(tmp_path / "whole", **options, num_iterations=24)
    for iterations in (7, 16, 24):
        stopped = tiny.train(tmp_path / "stopped", **options, num_iterations=iterations)
    assert_same(state_of(whole), state_of(stopped))
    if whole.algorithm.replay:
        assert whole.progress.updates > 20


def test_a_normalizer_counts_every_time_step_once(tmp_path: Path) -> None:
    tiny.bind(CARTPOLE)
    options = {"algorithm_ctor": PPOAlgorithm, "data_transformer_ctor": ObservationNormalizer}
    whole = tiny.train(tmp_path / "whole", **options, num_iterations=6)
    for iterations in (3, 6):
        stopped = tiny.train(tmp_path / "stopped", **options, num_iterations=iterations)
    assert_same(state_of(whole), state_of(stopped))


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_number_of_environments_begins_new_episodes(
    backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.bind(f'{CARTPOLE}\ncreate_environment.backend = "{backend}"')
    tiny.train(tmp_path, num_iterations=3)
    tiny.bind(f'{CARTPOLE}\ncreate_environment.backend = "{backend}"\ncreate_environment.num_parallel_environments = 2')
    capsys.readouterr()
    trainer = tiny.train(tmp_path, num_iterations=5, verbose=True)
    assert "going on from iteration 3, with new episodes" in capsys.readouterr().err
    assert trainer.progress.iterations == 5


def test_a_resumed_run_says_that_it_goes_on_within_its_episodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.bind(CARTPOLE)
    tiny.train(tmp_path, num_iterations=2)
    tiny.train(tmp_path, num_iterations=3, verbose=True)
    assert "going on from iteration 2, in the middle of its episodes" in capsys.readouterr().err


def test_episodes_that_cannot_be_played_again_are_cut_off_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny.bind(CARTPOLE)
    gin.bind_parameter("create_environment.wrappers", [Forgetful])
    tiny.train(tmp_path, num_iterations=1, unroll_length=3)
    trainer = tiny.make(tmp_path, num_iterations=2)
    assert "CartPole-v1: the episodes of the environments 0, 1, 2 could not be played again" in caplog.text
    assert trainer.algorithm.time_step.is_last().all()
    assert (trainer.algorithm.time_step.discount == 1).all()
    experience = trainer.algorithm.unroll(1)
    assert experience is not None
    assert experience.time_step.is_first()[1].all()
    trainer.close()
