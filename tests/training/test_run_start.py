"""A run goes on with other options, or says which of them it cannot go on with."""

from __future__ import annotations

import os
from pathlib import Path

import gin
import pytest

from alfish import config
from alfish.errors import CheckpointError, CheckpointMisfit
from alfish.training.run_folder import RunFolder
from alfish.training.trainer import Trainer
from tests.trained_run import CARTPOLE
from tests.training import tiny
from tests.training.test_exact_resume import DQN, REPLAYED

PPO = CARTPOLE.replace("verbose = False", "verbose = True") + "TrainerConfig.random_seed = 1\n"


def train(*bindings: str, text: str = PPO, **options: str) -> Trainer:
    Path("given.gin").write_text(text)
    config.load(["given.gin"], bindings)
    trainer = Trainer(root_dir="run", **options)
    trainer.train()
    return trainer


def versions() -> list[str]:
    return sorted(path.name for path in Path("run").glob("operative-*.gin"))


def test_changed_options_are_told_and_the_run_goes_on(capsys):
    train()
    capsys.readouterr()
    trainer = train("TrainerConfig.num_iterations=6", "Adam.lr=0.5")
    err = capsys.readouterr().err
    assert "options that were changed:\n    Adam.lr: 0.01 -> 0.5 (command line)\n    TrainerConfig.num_iter" in err
    assert "TrainerConfig.num_iterations: 4 -> 6 (command line)\n" in err
    assert trainer.progress.iterations == 6
    assert trainer.algorithm.optimizer.current_lr(trainer.progress) == 0.5
    assert versions() == ["operative-000000.gin", "operative-000004.gin"]
    assert "Adam.lr = 0.01" in Path("run/operative-000000.gin").read_text()
    assert Path("run/operative-000004.gin").read_text() == Path("run/operative.gin").read_text()


def test_without_changes_nothing_is_told(capsys):
    train(text=PPO.replace("random_seed = 1", "random_seed = None"))
    capsys.readouterr()
    config.load(["run/config.gin"])  # holds the seed that was drawn
    Trainer(root_dir="run").train()
    err = capsys.readouterr().err
    assert "going on from iteration 4" in err
    assert "changed" not in err
    assert versions() == ["operative-000000.gin"]


def test_a_new_run_in_a_folder_without_checkpoints_is_not_compared(capsys):
    train()
    for checkpoint in RunFolder("run").checkpoints.all():
        RunFolder("run").checkpoints.remove(checkpoint)
    capsys.readouterr()
    train("Adam.lr=0.5")
    assert "changed" not in capsys.readouterr().err
    assert "Adam.lr = 0.5" in Path("run/operative-000000.gin").read_text()


def test_another_architecture_is_refused_with_the_options_behind_it():
    train()
    with pytest.raises(CheckpointMisfit) as caught:
        train("ValueNetwork.fc_layer_params=(8,)")
    message = str(caught.value)
    assert "(4, 4) in the checkpoint, (8, 4) in the configuration" in message
    assert "not trained with:\n    ValueNetwork.fc_layer_params: (4,) -> (8,) (command line)\n" in message
    assert message.endswith("--root_dir=NEW --init_from=run")
    assert versions() == ["operative-000000.gin"]
    assert "fc_layer_params = (4,)" in Path("run/operative.gin").read_text()


def test_another_algorithm_is_refused_though_its_networks_fit():
    train()
    text = PPO.replace("PPOAlgorithm", "ActorCriticAlgorithm")
    with pytest.raises(CheckpointMisfit) as caught:
        train(text=text)
    message = str(caught.value)
    assert "run was trained with algorithm PPOAlgorithm; this is ActorCriticAlgorithm on CartPole-v1" in message
    assert "with:\n    TrainerConfig.algorithm_ctor: @PPOAlgorithm -> @ActorCriticAlgorithm (given.gin:5)\n" in message


@pytest.mark.filterwarnings("ignore:.*CartPole-v0 is out of date")
def test_another_environment_is_refused_though_its_spaces_fit():
    train()
    with pytest.raises(CheckpointMisfit) as caught:
        train('create_environment.env_name="CartPole-v0"')
    message = str(caught.value)
    assert "run was trained with environment CartPole-v1; this is PPOAlgorithm on CartPole-v0" in message
    assert "create_environment.env_name: 'CartPole-v1' -> 'CartPole-v0' (command line)" in message


def test_damage_is_not_blamed_on_options():
    train()
    for file in Path("run/checkpoints").glob("0*/model.pt"):
        os.truncate(file, 10)
    with pytest.raises(CheckpointError) as caught:
        train("Adam.lr=0.5")
    assert "no checkpoint is whole" in str(caught.value)
    assert "Adam.lr" not in str(caught.value)


@pytest.mark.parametrize("number", [1, 5])
def test_another_number_of_environments_is_told_as_not_exact(number, capsys):
    train()
    capsys.readouterr()
    trainer = train(f"create_environment.num_parallel_environments={number}", "TrainerConfig.num_iterations=6")
    err = capsys.readouterr().err
    assert "going on from iteration 4, with new episodes" in err
    assert f"2 environments before, {number} now: not to the bit" in err
    assert trainer.progress.iterations == 6


def test_with_another_data_transformer_new_episodes_begin(capsys):
    train()
    capsys.readouterr()
    more = ("TrainerConfig.num_iterations=6", "TrainerConfig.data_transformer_ctor=@RewardScaling")
    assert train(*more, "RewardScaling.scale=2.0").progress.iterations == 6
    err = capsys.readouterr().err
    assert "going on from iteration 4, with new episodes" in err
    assert "TrainerConfig.data_transformer_ctor: None -> @RewardScaling (command line)" in err


@pytest.mark.parametrize("number", [1, 2, 5])
def test_the_replay_of_another_number_of_environments_is_kept(number):
    options = {**REPLAYED, "algorithm_ctor": tiny_dqn(), "replay_buffer_length": 400}
    first = tiny.train(**options, num_iterations=20)
    before = first.algorithm.replay.num_transitions
    gin.bind_parameter("create_environment.num_parallel_environments", number)
    second = tiny.make(**options, num_iterations=22)
    replay = second.algorithm.replay
    # Every ring that holds something has one transition more, from the break to FIRST; seams add or lose one.
    assert before <= replay.num_transitions <= before + 6
    assert replay.num_environments == number
    updates = second.progress.updates
    second.train()
    assert second.progress.updates > updates  # at once: nothing is collected anew


def tiny_dqn() -> type:
    from alfish.algorithms.dqn import DqnAlgorithm

    tiny.bind(DQN)
    return DqnAlgorithm


def test_a_run_that_goes_on_has_begun_already(capsys):
    train()
    capsys.readouterr()
    train("TrainerConfig.num_iterations=5", init_from="gone")
    assert "--init_from=gone: no effect, the run has begun already" in capsys.readouterr().err
    assert RunFolder("run").read_run()["init_from"] is None


def test_another_number_of_threads_or_another_machine_is_told(capsys):
    train()
    folder = RunFolder("run")
    capsys.readouterr()
    train("TrainerConfig.num_iterations=5", "TrainerConfig.num_threads=2")
    assert "1 torch thread(s) before, 2 now: not to the bit what it would have been. Trai" in capsys.readouterr().err
    train("TrainerConfig.num_iterations=6")
    assert "torch thread(s) before" not in capsys.readouterr().err
    assert folder.read_run()["torch_threads"] == 2
    folder.write_run(platform="another")
    train("TrainerConfig.num_iterations=7", "TrainerConfig.num_threads=2")
    assert "on another machine than before: perhaps not to the bit" in capsys.readouterr().err
