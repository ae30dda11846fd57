"""Datasets of Minari, the collection of the Farama Foundation, as recorded experience."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from alfish import nest, specs
from alfish.environments.spaces import leaf_values
from alfish.errors import ConfigError
from alfish.replay.tape import Tape, join
from alfish.training.dataset import Dataset, plain_spec
from alfish.types import Nest, StepType


def read_minari(dataset_id: str) -> Dataset:
    """A dataset that is on this machine.

    Args:
        dataset_id: e.g. 'D4RL/pointmaze/umaze-v2'.

    Raises:
        ConfigError: Minari is not installed, or the dataset is not on this machine, or it is empty.
    """
    try:
        minari = importlib.import_module("minari")
    except ImportError as error:
        raise ConfigError(f"Minari is missing: pip install 'alfish[minari]' ({error})") from error
    try:
        dataset = minari.load_dataset(dataset_id)
    except (FileNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"{error}. `minari download {dataset_id}` fetches it") from error
    observation_spec, action_spec = specs.from_space(dataset.observation_space), specs.from_space(dataset.action_space)
    tape = join([_tape(episode, observation_spec, action_spec) for episode in dataset.iterate_episodes()])
    if tape is None:
        raise ConfigError("it holds no steps")
    recorded_in = dataset.env_spec.id if dataset.env_spec is not None else "an environment without a name"
    return Dataset(tape, recorded_in, plain_spec(action_spec))


def _tape(episode: Any, observation_spec: Nest, action_spec: Nest) -> Tape:
    """An episode of T actions and T + 1 observations; one that was cut off ends as at a time limit."""
    length = len(episode.rewards)
    step_type = torch.full((length + 1,), StepType.MID, dtype=torch.int32)
    step_type[0], step_type[-1] = StepType.FIRST, StepType.LAST
    reward = torch.as_tensor(np.asarray(episode.rewards, np.float32))
    ended = torch.as_tensor(np.asarray(episode.terminations, bool))
    action = _tensors(action_spec, episode.actions)
    return Tape(
        step_type=step_type,
        reward=torch.cat((torch.zeros_like(reward[:1]), reward)),
        discount=torch.cat((torch.ones(1), 1.0 - ended.float())),
        observation=_tensors(observation_spec, episode.observations),
        action=nest.map(lambda leaf: torch.cat((leaf, leaf[-1:])), action),
    )


def _tensors(spec: Nest, arrays: Any) -> Nest:
    leaves: Sequence[Any] = leaf_values(spec, arrays)
    made = [
        torch.as_tensor(np.asarray(array)).to(leaf.dtype) for array, leaf in zip(leaves, nest.leaves(spec), strict=True)
    ]
    return nest.unflatten(spec, made)
