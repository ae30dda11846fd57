"""Minari's datasets, as far as they are on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish.errors import ConfigError
from alfish.training.minari_source import read_minari

SPACE = gym.spaces.Dict({"b": gym.spaces.Box(-1, 1, (2,), np.float64), "a": gym.spaces.Discrete(5)})


def episode(length: int, terminated: bool, start: int = 0) -> Any:
    """As Minari gives it: one observation more than actions; dicts in any order."""
    number = np.arange(start, start + length + 1)
    return SimpleNamespace(
        observations={"a": number % 5, "b": np.stack([number, -number], -1) / 100},
        actions=number[:-1].astype(np.float32)[:, None] / 100,
        rewards=number[1:].astype(np.float64),
        terminations=np.arange(length) == (length - 1 if terminated else -1),
        truncations=np.zeros(length, bool),
    )


class FakeMinari:
    """What is used of Minari."""

    def __init__(self, *episodes: Any) -> None:
        self.episodes = episodes
        self.asked: list[str] = []

    def load_dataset(self, dataset_id: str) -> Any:
        self.asked.append(dataset_id)
        if dataset_id != "toy/data-v0":
            raise FileNotFoundError(f"Dataset {dataset_id} not found locally")
        return SimpleNamespace(
            observation_space=SPACE,
            action_space=gym.spaces.Box(-2.0, 2.0, (1,), np.float32),
            env_spec=SimpleNamespace(id="Toy-v0"),
            iterate_episodes=lambda: iter(self.episodes),
        )


@pytest.fixture
def minari(monkeypatch: pytest.MonkeyPatch) -> FakeMinari:
    fake = FakeMinari(episode(3, terminated=True), episode(2, terminated=False, start=10))
    monkeypatch.setitem(sys.modules, "minari", fake)  # type: ignore[arg-type]
    return fake


def test_episodes_become_time_steps(minari: FakeMinari) -> None:
    dataset = read_minari("toy/data-v0")
    tape = dataset.tape
    assert tape.step_type.tolist() == [0, 1, 1, 2, 0, 1, 2]
    assert tape.reward.tolist() == [0, 1, 2, 3, 0, 11, 12]
    assert tape.discount.tolist() == [1, 1, 1, 0, 1, 1, 1]  # what was cut off bootstraps
    assert tape.observation["a"].tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert tape.observation["b"].dtype == torch.float32
    assert (100 * tape.action[:, 0]).round().int().tolist() == [0, 1, 2, 2, 10, 11, 11]
    assert (dataset.environment, dataset.action_spec[""]["maximum"]) == ("Toy-v0", [2.0])


def test_without_minari_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ConfigError, match=r"pip install 'alfish\[minari\]'"):
        read_minari("toy/data-v0")


def test_a_dataset_that_is_not_here_is_not_fetched(minari: FakeMinari) -> None:
    with pytest.raises(ConfigError, match=r"not found locally\. `minari download toy/other-v0` fetches it"):
        read_minari("toy/other-v0")


def test_an_empty_dataset_is_refused(minari: FakeMinari) -> None:
    minari.episodes = ()
    with pytest.raises(ConfigError, match="it holds no steps"):
        read_minari("toy/data-v0")


def test_a_real_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    buffers = pytest.importorskip("minari.data_collector.episode_buffer")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = [
        buffers.EpisodeBuffer(
            observations=np.random.default_rng(length).uniform(-1, 1, (length + 1, 4)).astype(np.float32),
            actions=np.arange(length) % 2,
            rewards=[1.0] * length,
            terminations=[False] * (length - 1) + [length > 3],
            truncations=[False] * (length - 1) + [length <= 3],
            infos={},
        )
        for length in (3, 7)
    ]
    env = gym.make("CartPole-v1")
    minari.create_dataset_from_buffers("toy/cartpole-v0", episodes, env=env, algorithm_name="chance")
    dataset = read_minari("toy/cartpole-v0")
    tape = dataset.tape
    assert (dataset.environment, tape.num_episodes, tape.num_steps) == ("CartPole-v1", 2, 10)
    assert tape.observation.tolist() == np.concatenate([each.observations for each in episodes]).tolist()
    assert tape.action.tolist() == [0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0]
    assert tape.discount.tolist() == [1.0] * 11 + [0.0]
