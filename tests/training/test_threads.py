from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.loading import load
from alfish.environments.create import create_environment
from alfish.seeding import Seeds
from alfish.training.build import bound_options, build_algorithm
from alfish.training.threads import MiniBatch, available_cores, num_threads_of_run, suitable_threads

SMALL = MiniBatch(4, 1)
HERE = {"cores": os.cpu_count(), "platform": platform.platform()}


class Learner(nn.Module):
    """Layers of these sizes, and what is asked of an algorithm."""

    def __init__(
        self, *sizes: int, extra: Sequence[nn.Module] = (), on_policy: bool = False, single_update: bool = False
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(sizes)), *extra)
        self.on_policy = on_policy
        self.single_update = single_update
        self.sequence_length = 2


def options(**given: Any) -> TrainerConfig:
    sampling = {"whole_replay_buffer_training": False, "mini_batch_size": 256}
    return TrainerConfig(algorithm_ctor=PPOAlgorithm, **{**sampling, **given})


def chosen(*sizes: int, cores: int = 8, learner: Any = None, num_environments: int = 4, **given: Any) -> int:
    config, networks = options(**given), learner or Learner(*sizes)
    return suitable_threads(config, networks, MiniBatch.of(config, networks, num_environments), cores)


@pytest.mark.parametrize(
    ("sizes", "batch", "expected"),
    [
        ((4, 64, 64, 2), 256, 1),
        ((4, 64, 64, 2), 100_000, 1),  # narrow layers have little to share, however many rows
        ((17, 128, 128, 6), 256, 1),
        ((17, 256, 256, 6), 128, 1),
        ((17, 256, 256, 6), 256, 2),  # half of 256 x 256 x 256 multiply-adds each
        ((17, 512, 512, 6), 256, 8),
        ((17, 512, 512, 6), 128, 4),
        ((17, 512, 512, 6), 32, 1),
    ],
)
def test_wide_layers_with_large_batches_get_more_threads(sizes: tuple[int, ...], batch: int, expected: int) -> None:
    assert chosen(*sizes, mini_batch_size=batch) == expected


def test_never_more_than_there_are_cores() -> None:
    assert chosen(17, 512, 512, 6, cores=3) == 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"async_unroll": True, "num_unroll_workers": 2}, 6),
        ({"evaluate": True}, 7),
        ({"evaluate": True, "async_eval": False}, 8),
        ({"async_unroll": True, "num_unroll_workers": 12}, 1),
    ],
)
def test_workers_keep_their_cores(given: dict[str, Any], expected: int) -> None:
    assert chosen(17, 512, 512, 6, **given) == expected


def test_convolutions_get_all_cores() -> None:
    assert chosen(learner=Learner(extra=[nn.Conv2d(4, 32, 8)]), mini_batch_size=32) == 8


def test_a_recurrent_layer_sees_one_step_after_the_other() -> None:
    given = {"mini_batch_size": 32, "mini_batch_length": 33}
    assert chosen(learner=Learner(extra=[nn.LSTM(128, 128)]), **given) == 1
    assert chosen(learner=Learner(512, 128), **given) == 8


def test_one_update_per_unroll_and_whole_batches_have_the_rows_of_the_unroll() -> None:
    whole = {"whole_replay_buffer_training": True, "mini_batch_size": None, "unroll_length": 64}
    assert chosen(learner=Learner(256, 256, on_policy=True, single_update=True), **whole) == 2
    assert chosen(learner=Learner(256, 256, on_policy=True), **{**whole, "mini_batch_size": "whole"}) == 2
    assert chosen(learner=Learner(256, 256, on_policy=True), **{**whole, "mini_batch_length": 1}) == 1


def test_an_accelerator_does_the_work_itself() -> None:
    assert chosen(17, 512, 512, 6, device="cuda") == 1


@pytest.mark.parametrize("config", ["ppo", "a2c", "dqn", "sac", "td3", "ddpg", "sarsa"])
def test_shipped_configs_with_small_networks_keep_one_thread(config: str) -> None:
    load([f"{config}.gin"])
    with create_environment() as env:
        options = bound_options()
        algorithm = build_algorithm(options, env, Seeds(0))
        assert suitable_threads(options, algorithm, MiniBatch.of(options, algorithm, env.batch_size), cores=64) == 1


def test_what_was_asked_for_wins() -> None:
    then = {**HERE, "torch_threads": 5}
    assert num_threads_of_run(options(num_threads=3), Learner(4, 4), SMALL, then) == 3


def test_a_run_that_goes_on_keeps_its_number_on_the_same_machine_only() -> None:
    then = {**HERE, "torch_threads": 5}
    assert num_threads_of_run(options(), Learner(4, 4), SMALL, then) == 5
    elsewhere = {**then, "cores": 1000}
    assert num_threads_of_run(options(), Learner(4, 4), SMALL, elsewhere) == 1
    assert num_threads_of_run(options(), Learner(4, 4), SMALL, {}) == 1


def test_cores_are_those_that_this_process_may_use() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)
    assert torch.get_num_threads() == 1


def test_a_supervised_learner_evaluates_itself_and_needs_no_core_for_that() -> None:
    config = TrainerConfig(algorithm_ctor=PPOAlgorithm, ml_type="sl", evaluate=True)
    assert suitable_threads(config, Learner(512, 512), MiniBatch(256, 1), cores=8) == 8
