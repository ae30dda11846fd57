"""What `offline_buffer_dir` names is found, checked and told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.replay.tape import Tape
from alfish.training.dataset import write_dataset
from alfish.training.offline_sources import OfflineData, load_offline
from alfish.types import replace
from tests.algorithms.recorded import POLICY, random_tape
from tests.training import tiny
from tests.training.test_minari_source import FakeMinari, episode

DQN: dict[str, Any] = {
    "algorithm_ctor": DqnAlgorithm,
    "whole_replay_buffer_training": False,
    "mini_batch_size": 4,
    "num_iterations": 3,
}


def policy_env(**env_kwargs: Any) -> Environment:
    return create_environment(POLICY, env_kwargs=env_kwargs or None)


def write(path: str, tape: Tape | None = None, **env_kwargs: Any) -> Tape:
    tape = tape or random_tape(num_steps=20, **env_kwargs)
    with policy_env(**env_kwargs) as env:
        write_dataset(Path(path), tape, env, {})
    return tape


def offline(env: Environment, *sources: str, length: int | None = None) -> OfflineData:
    config = TrainerConfig(algorithm_ctor=DqnAlgorithm, offline_buffer_dir=sources, offline_buffer_length=length)
    data = load_offline(config, env)
    assert data is not None
    return data


def refusal(env: Environment, *sources: str) -> str:
    with pytest.raises(ConfigProblems) as caught:
        offline(env, *sources)
    return str(caught.value)


def test_nothing_is_loaded_unless_it_is_asked_for() -> None:
    assert load_offline(TrainerConfig(algorithm_ctor=DqnAlgorithm), policy_env()) is None


def test_one_source_or_several_in_their_order() -> None:
    one, two = write("one"), write("two", random_tape(num_steps=8, seed=1))
    config = TrainerConfig(algorithm_ctor=DqnAlgorithm, offline_buffer_dir="one")
    data = load_offline(config, policy_env())
    assert data is not None
    assert torch.equal(data.tape.reward, one.reward)
    both = offline(policy_env(), "two", "one")
    assert torch.equal(both.tape.reward, torch.cat((two.reward, one.reward)))
    assert both.words == (
        "offline data: two (dataset), 8 steps of 4 episodes",
        "offline data: one (dataset), 20 steps of 4 episodes",
    )


def test_the_length_holds_for_each_source() -> None:
    one = write("one")
    data = offline(policy_env(), "one", "one", length=8)
    assert torch.equal(data.tape.reward, torch.cat((one.reward[-8:], one.reward[-8:])))


def test_a_run_folder_and_its_checkpoint_hold_the_same() -> None:
    tiny.bind("DqnAlgorithm.optimizer = @Adam()\nQNetwork.fc_layer_params = (4,)")
    trainer = tiny.train("run", **DQN)
    run = offline(policy_env(), "run")
    checkpoint = offline(policy_env(), "run/checkpoints/000003")
    assert torch.equal(run.tape.observation, checkpoint.tape.observation)
    assert run.words == ("offline data: run (replay of iteration 3), 52 steps of 12 episodes",)
    assert trainer.progress.env_steps == run.tape.num_steps


def test_of_several_checkpoints_the_newest_with_its_replay_is_taken() -> None:
    tiny.bind("DqnAlgorithm.optimizer = @Adam()\nQNetwork.fc_layer_params = (4,)")
    tiny.train("run", **DQN, num_checkpoints=3)
    assert "(replay of iteration 3)" in offline(policy_env(), "run").words[0]
    assert "has no replay.pt: only the newest" in refusal(policy_env(), "run/checkpoints/000002")
    Path("run/checkpoints/000003/replay.pt").unlink()
    assert "has 3 checkpoint(s), none with its replay" in refusal(policy_env(), "run")


def test_what_is_not_there_is_told_with_what_could_be() -> None:
    write("one")
    Path("file").touch()
    Path("empty").mkdir()
    message = refusal(policy_env(), "nowhere", "one", "file", "empty")
    assert "3 problems" in message
    assert "TrainerConfig.offline_buffer_dir: nowhere does not exist. It takes a run folder, a checkpoint" in message
    assert "file is no folder" in message
    assert "empty holds no recorded data. It takes" in message


def test_a_damaged_source_is_told() -> None:
    write("one")
    Path("one/steps.pt").unlink()
    assert "one is damaged: steps.pt is missing" in refusal(policy_env(), "one")


def test_data_of_another_environment_are_told_by_what_differs() -> None:
    write("one", action_type="continuous")
    assert refusal(policy_env(), "one").startswith(
        f"TrainerConfig.offline_buffer_dir: one, recorded in {POLICY}, does not fit {POLICY}:\n"
        "    action: float32 (1,) in the data, int64 () in the environment\n"
        "Set create_environment.env_name"
    )
    write("vector", reward_dim=2)
    assert "reward: float32 (2,) in the data, float32 () in the env" in refusal(policy_env(), "vector")
    mixed = create_environment("alfish/MixedPolicyUnittest-v0")
    assert "action.0: only in the environment" in refusal(mixed, "one")


def test_actions_that_the_environment_does_not_have_are_told() -> None:
    tape = random_tape(num_steps=20)
    write("one", replace(tape, action=tape.action + 1))
    assert "action: from 1 to 2 in the data, from 0 to 1 in the environment" in refusal(policy_env(), "one")


def test_continuous_actions_of_another_range_are_told() -> None:
    write("one", action_type="continuous")
    manifest = Path("one/manifest.json")
    manifest.write_text(manifest.read_text().replace("1.0", "2.0"))
    message = refusal(policy_env(action_type="continuous"), "one")
    assert "action: bounds [[0.0], [2.0]] in the data, [[0.0], [1.0]] in the environment" in message


def test_numbers_that_are_not_finite_are_told() -> None:
    tape = random_tape(num_steps=20)
    reward = tape.reward.clone()
    reward[3:5] = torch.nan
    write("one", replace(tape, reward=reward))
    assert "reward: 2 numbers in the data are not finite" in refusal(policy_env(), "one")


def test_a_source_without_steps_is_told() -> None:
    tape = random_tape(num_steps=20)
    write("one", tape.newest(1))
    assert "one holds no steps" in refusal(policy_env(), "one")


def test_a_minari_dataset_is_named_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeMinari(episode(3, terminated=True))
    monkeypatch.setitem(sys.modules, "minari", fake)  # type: ignore[arg-type]
    message = refusal(policy_env(), "minari:toy/data-v0")
    assert "minari:toy/data-v0, recorded in Toy-v0, does not fit" in message
    assert fake.asked == ["toy/data-v0"]
    monkeypatch.setitem(sys.modules, "minari", None)
    assert "minari:x-v0: Minari is missing: pip install 'alfish[minari]'" in refusal(policy_env(), "minari:x-v0")
