"""Episodes are recorded as they were played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.errors import AlfishError, ConfigError
from alfish.replay.tape import Tape
from alfish.seeding import Seeds
from alfish.training.dataset import read_dataset
from alfish.training.recording import Amount, Policy, collect_dataset, record
from alfish.training.restored_run import RestoredRun
from alfish.types import StepType
from tests.algorithms.recorded import POLICY
from tests.trained_run import train_run

CONFIG = f'create_environment.env_name = "{POLICY}"\nTrainerConfig.algorithm_ctor = @PPOAlgorithm\n'


def played(amount: Amount, env_name: str = POLICY, number: int = 3, **env_kwargs: Any) -> Tape:
    with create_environment(env_name, num_parallel_environments=number, env_kwargs=env_kwargs or None) as env:
        return record(env, Policy(env, None, 1.0, Seeds(0)), amount, seed=3)


def test_rewards_belong_to_the_action_before() -> None:
    tape = played(Amount(num_episodes=6), action_type="continuous")
    earned = 1 - (tape.action - tape.observation).abs().squeeze(-1)
    inside = tape.step_type[1:] != StepType.FIRST
    torch.testing.assert_close(tape.reward[1:][inside], earned[:-1][inside])
    assert (tape.reward[tape.step_type == StepType.FIRST] == 0).all()


def test_episodes_are_whole_and_equally_many_of_each_environment() -> None:
    tape = played(Amount(num_episodes=6))
    assert (tape.num_episodes, tape.num_steps, len(tape)) == (6, 30, 36)
    assert tape.step_type.tolist() == [0, 1, 1, 1, 1, 2] * 6
    assert tape.discount.tolist() == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0] * 6


def test_steps_are_exactly_as_many_and_the_rest_of_an_episode_is_cut_as_at_a_time_limit() -> None:
    tape = played(Amount(num_steps=24))
    assert (tape.num_steps, tape.num_episodes) == (24, 6)
    assert tape.step_type.tolist() == [0, 1, 1, 1, 1, 2, 0, 1, 1, 2] * 3
    assert tape.discount.tolist() == [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0] * 3


def test_an_amount_is_shared_evenly() -> None:
    assert Amount(num_episodes=100).num_environments() == 10
    assert Amount(num_steps=48).num_environments() == 16
    assert Amount(num_episodes=7).num_environments() == 7


def test_the_policy_of_a_run_is_recorded_as_it_evaluates(tmp_path: Path) -> None:
    run = train_run(tmp_path)
    tape = collect_dataset(str(run), tmp_path / "data", Amount(num_episodes=4))
    dataset = read_dataset(tmp_path / "data")
    assert torch.equal(dataset.tape.action, tape.action)
    assert dataset.environment == "CartPole-v1"
    facts = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert (facts["checkpoint"], facts["random"], facts["source"]) == (4, 0.0, str(run))
    again = collect_dataset(str(run), tmp_path / "again", Amount(num_episodes=4))
    assert torch.equal(again.observation, tape.observation)
    other = collect_dataset(str(run), tmp_path / "other", Amount(num_episodes=4), seed=7)
    assert other.observation.shape != tape.observation.shape or not torch.equal(other.observation, tape.observation)


def test_a_part_of_the_actions_can_be_random(tmp_path: Path) -> None:
    run = train_run(tmp_path)
    agreement = []
    for random in (0.0, 0.5, 1.0):
        tape = collect_dataset(str(run), tmp_path / f"{random}", Amount(num_steps=400), random=random)
        with create_environment() as env, torch.no_grad():
            policy = RestoredRun.open(run, "latest", None).build_algorithm(env).actor_network(tape.observation)[0]
        acts = tape.step_type != StepType.LAST
        agreement.append((tape.action == policy.mode())[acts].float().mean().item())
    # Of two actions chance takes the policy's own every other time. Five standard deviations of 400 draws are 0.125.
    assert agreement == [1.0, pytest.approx(0.75, abs=0.125), pytest.approx(0.5, abs=0.125)]


def test_a_config_is_enough_when_everything_is_random(tmp_path: Path) -> None:
    config = tmp_path / "chance.gin"
    config.write_text(CONFIG)
    tape = collect_dataset(str(config), tmp_path / "data", Amount(num_episodes=4), random=1.0)
    assert tape.num_episodes == 4
    with pytest.raises(AlfishError, match=r"is not a run folder|does not exist"):
        collect_dataset(str(config), tmp_path / "more", Amount(num_episodes=4), random=0.5)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        collect_dataset("nowhere", tmp_path, Amount(num_episodes=4))


class _Counted:
    """Environments that count their steps."""

    def __init__(self, env: Environment) -> None:
        self.env, self.steps = env, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.env.step(action)


def test_no_more_is_played_than_is_needed() -> None:
    with create_environment(POLICY, num_parallel_environments=3) as env:
        counted = _Counted(env)
        record(counted, Policy(env, None, 1.0, Seeds(0)), Amount(num_episodes=6), seed=3)  # type: ignore[arg-type]
    assert counted.steps == 11  # two episodes of 5 steps, and the step between them
