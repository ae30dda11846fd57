"""How many torch threads a learner has."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import torch
from torch import nn

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig

# Multiply-adds of a layer and mini batch. Two threads take two thirds of the time of one for 256 x 256 with 256 rows;
# for 64 x 64 they take longer.
_WORTH_THREADS = 256**3
_WORTH_A_THREAD = _WORTH_THREADS // 2
_WIDE = 256**2  # weights; with fewer, threads wait for each other however many rows there are


@dataclass(frozen=True)
class MiniBatch:
    """What an update learns from."""

    sequences: int
    length: int  # of each; 1 where there is no time

    @classmethod
    def of(cls, config: TrainerConfig, algorithm: RLAlgorithm, num_environments: int) -> MiniBatch:
        """Of a reinforcement learner."""
        unroll = max(1, ceil(config.unroll_length))
        if config.mini_batch_size == "whole" or algorithm.single_update:
            return cls(num_environments, unroll)
        if not config.whole_replay_buffer_training:
            length = (config.mini_batch_length or algorithm.sequence_length) - 1
        else:
            length = config.mini_batch_length or (unroll if algorithm.on_policy else algorithm.sequence_length - 1)
        return cls(config.mini_batch_size or num_environments, length)


def num_threads_of_run(
    config: TrainerConfig, networks: nn.Module, mini_batch: MiniBatch, then: Mapping[str, Any], num_sharing: int = 1
) -> int:
    """What was asked for, else what the run had before, else what suits the networks.

    Args:
        config: the options of the run.
        networks: that learn.
        mini_batch: what they learn from.
        then: `run.json` of the run that goes on; empty for a new one. Results are bit-equal only at equal numbers, so
            on a machine like that of then the number stays.
        num_sharing: learners on this machine.
    """
    if config.num_threads is not None:
        return config.num_threads
    if "torch_threads" in then and is_same_machine(then):
        return int(then["torch_threads"])
    return suitable_threads(config, networks, mini_batch, max(1, available_cores() // num_sharing))


def is_same_machine(then: Mapping[str, Any]) -> bool:
    """Whether a run was on a machine like this one, as far as `run.json` tells."""
    now = {"cores": os.cpu_count(), "platform": platform.platform()}
    return all(then.get(name, value) == value for name, value in now.items())


def suitable_threads(config: TrainerConfig, networks: nn.Module, mini_batch: MiniBatch, cores: int) -> int:
    """By the size of the layers: 1 up to a few hundred units, all that are free for convolutions.

    Args:
        config: the options of the run.
        networks: that learn.
        mini_batch: what they learn from.
        cores: of this process; those that workers need are not free.
    """
    if torch.device(config.device).type != "cpu":
        return 1
    evaluates_beside = config.evaluate and config.async_eval and config.ml_type == "rl"
    busy = config.num_unroll_workers * config.async_unroll + evaluates_beside
    free = max(1, cores - busy)
    if any(isinstance(module, nn.modules.conv._ConvNd) for module in networks.modules()):
        return free
    work = max(map(partial(_work, mini_batch), networks.modules()), default=0)
    return 1 if work < _WORTH_THREADS else min(free, work // _WORTH_A_THREAD)


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work(mini_batch: MiniBatch, layer: nn.Module) -> int:
    """Multiply-adds with the largest weights of a layer; 0 when they are too few to be shared by threads."""
    # Recurrent layers see one time step after the other.
    rows = mini_batch.sequences * (1 if isinstance(layer, nn.RNNBase) else mini_batch.length)
    sizes = [weight.numel() for weight in layer.parameters(recurse=False) if weight.dim() > 1]
    return max((size * rows for size in sizes if size >= _WIDE), default=0)
