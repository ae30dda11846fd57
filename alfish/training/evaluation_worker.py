"""The process that evaluates while training goes on."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from alfish.config.carry import Operative, operative_keys
from alfish.errors import AlfishError
from alfish.seeding import Seeds
from alfish.training.build import build_algorithm
from alfish.training.evaluator import Evaluator, create_eval_environment
from alfish.training.snapshot import SharedParameters
from alfish.training.worker_config import WorkerConfig


@dataclass(frozen=True)
class Ready:
    """Environments and algorithm are made."""

    used: Operative  # bindings


@dataclass(frozen=True)
class Played:
    """The episodes that were asked for."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    used: Operative


@dataclass(frozen=True)
class Failed:
    """An evaluation raised; everything is made anew for the next one."""

    text: str


def evaluate_on_request(
    pipe: Connection, setup: WorkerConfig, root_seed: int, parameters: Sequence[SharedParameters]
) -> None:
    """Receives indices into `parameters`, and answers each with the episodes that these play."""
    torch.set_num_threads(1)
    config = setup.install()
    seeds = Seeds(root_seed)
    while True:
        with create_eval_environment(config.num_eval_environments) as env:
            algorithm = build_algorithm(config, env, seeds)
            evaluator = Evaluator(env, seeds.child("eval"), config.reward_reduction)
            pipe.send(Ready(operative_keys()))
            failure: Failed | None = None
            while failure is None:
                parameters[pipe.recv()].load_into(algorithm)
                try:
                    returns, lengths = evaluator.evaluate(algorithm, config.num_eval_episodes)
                except Exception as error:  # a user's environment may raise anything
                    failure = Failed(_text_of(error))
                else:
                    pipe.send(Played(returns, lengths, operative_keys()))
            pipe.send(failure)


def _text_of(error: Exception) -> str:
    return str(error) if isinstance(error, AlfishError) else "".join(traceback.format_exception(error)).rstrip()
