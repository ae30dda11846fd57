"""What the configs of these tests refer to: hooks, scores and an algorithm of a user's own."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from alfish.algorithms.actor_critic import ActorCriticAlgorithm
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.registry import configurable
from alfish.environments.environment import Environment
from alfish.specs import TensorSpec
from alfish.training.hooks import MOMENTS, Context
from alfish.training.results import EvalResult
from alfish.types import Nest


@configurable
def sooner_is_better(result: EvalResult) -> float:
    """The best score is that of the first evaluation.

    Args:
        result: to be judged.
    """
    return 10.0 - result.iteration


@configurable
def second_is_best(result: EvalResult) -> float:
    """The best score is that of iteration 2.

    Args:
        result: to be judged.
    """
    return -abs(result.iteration - 2.0)


@configurable
class Moments:
    """A hook that writes down every moment of a run: its name, the iteration, the type of the context."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str]] = []

    def __getattr__(self, name: str) -> Any:
        if name not in MOMENTS:
            raise AttributeError(name)
        return lambda context: self.calls.append((name, context.progress.iterations, type(context).__name__))


@configurable
class Crash:
    """A hook with a mistake in it.

    Args:
        iteration: at whose end it raises.
    """

    def __init__(self, iteration: int = 2) -> None:
        self._iteration = iteration

    def on_iteration_end(self, context: Context) -> None:
        if context.progress.iterations == self._iteration:
            raise ValueError("the wheel came off")


@configurable
class TerminatedAndStuck:
    """A hook that gets SIGTERM and never returns."""

    def on_iteration_end(self, context: Context) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        while True:
            time.sleep(0.01)


@configurable
def make_own_algorithm(
    observation_spec: Nest,
    action_spec: Nest,
    reward_spec: TensorSpec,
    env: Environment,
    config: TrainerConfig,
    debug_summaries: bool,
) -> RLAlgorithm:
    """An algorithm that remembers what it was made from, as `given`.

    Args:
        observation_spec: what the networks see.
        action_spec: what the environments take.
        reward_spec: of the rewards.
        env: the environments.
        config: the options of the run.
        debug_summaries: write more.
    """
    given = dict(locals())
    algorithm = ActorCriticAlgorithm(**given)
    algorithm.given = given
    return algorithm
