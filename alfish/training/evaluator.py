"""Evaluation: how well does the policy do, on environments and seeds of its own."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import torch

from alfish import nest, specs
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.gin_state import scope
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.seeding import Seeds
from alfish.types import Nest


@dataclass(frozen=True)
class Evaluated:
    """What an evaluation is of: parameters as they were at one moment of a run."""

    iteration: int
    env_steps: int
    updates: int
    model: dict[str, Any] | None = None  # a copy of all parameters; None: the algorithm still has them


@dataclass(frozen=True)
class Finished:
    """The episodes of one evaluation."""

    of: Evaluated
    returns: tuple[float, ...]
    lengths: tuple[int, ...]


def create_eval_environment(num_environments: int) -> Environment:
    """Environments to evaluate in: bindings in the scope `eval/` hold for them, and only for them."""
    with scope("eval"):
        return create_environment(num_parallel_environments=num_environments)


class Evaluator:
    """Plays whole episodes with `predict_step`.

    Every call plays the same episodes: equal parameters give equal returns, and evaluations of one run can be
    compared.
    """

    def __init__(self, env: Environment, seeds: Seeds) -> None:
        self.env = env
        self._seeds = seeds

    def evaluate(self, algorithm: RLAlgorithm, num_episodes: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Returns and lengths of the first ceil(N / E) episodes of each of the E environments; -1: one of each.

        Taking equally many from each keeps short episodes from being over-counted.
        """
        env = self.env
        quota = 1 if num_episodes == -1 else ceil(num_episodes / env.batch_size)
        device = next(algorithm.parameters()).device
        episodes = _Episodes(env.batch_size, quota)
        with algorithm.evaluating(self._seeds.torch("action", device=device)):
            time_step = env.reset(seed=self._seeds.integer("env"))
            state: Nest = specs.zeros(algorithm.predict_state_spec, env.batch_size, device=device)
            transformer = algorithm.data_transformer
            transformer_state: Nest = specs.zeros(transformer.state_spec, env.batch_size, device=device)
            while not episodes.complete:
                inputs = nest.to_device(time_step, device)
                inputs, transformer_state = transformer.transform_timestep(inputs, transformer_state)
                state = nest.zero_where(inputs.is_first(), state)
                step = algorithm.predict_step(inputs, state)
                state = step.state
                time_step = env.step(nest.to_device(step.output, "cpu"))
                episodes.observe(time_step.reward, time_step.is_first(), time_step.is_last())
        return episodes.results()


class RequestedEvaluator(Protocol):
    """Evaluates on request, at once or later."""

    @property
    def counts(self) -> dict[str, int]:
        """What happened to requests so far, for the summaries."""

    @property
    def pending(self) -> Evaluated | None:
        """The newest evaluation whose result is still to come."""

    def submit(self, evaluated: Evaluated, algorithm: RLAlgorithm) -> None:
        """Asks for an evaluation of the parameters as they are now."""

    def take(self) -> list[Finished]:
        """What was finished since the last time. Does not wait."""

    def wait(self) -> None:
        """Returns when there may be something to take, after a fraction of a second at the latest."""

    def wait_until_ready(self) -> None:
        """Waits until it is known which bindings evaluation uses."""

    def give_up(self) -> None:
        """Nothing is pending any more."""

    def close(self) -> None:
        """Ends environments and processes. Twice is fine."""


class InProcessEvaluator:
    """Plays at once, while training waits."""

    pending: Evaluated | None = None  # never

    def __init__(self, config: TrainerConfig, seeds: Seeds) -> None:
        self.counts: dict[str, int] = {}
        self._num_episodes = config.num_eval_episodes
        self._evaluator = Evaluator(create_eval_environment(config.num_eval_environments), seeds.child("eval"))
        self._finished: list[Finished] = []

    def submit(self, evaluated: Evaluated, algorithm: RLAlgorithm) -> None:
        self._finished.append(Finished(evaluated, *self._evaluator.evaluate(algorithm, self._num_episodes)))

    def take(self) -> list[Finished]:
        finished, self._finished = self._finished, []
        return finished

    def wait(self) -> None: ...

    def wait_until_ready(self) -> None: ...

    def give_up(self) -> None: ...

    def close(self) -> None:
        self._evaluator.env.close()


class _Episodes:
    """Returns and lengths of the first `quota` episodes of each environment; a vector reward is summed."""

    def __init__(self, batch_size: int, quota: int) -> None:
        self._quota = quota
        self._return = torch.zeros(batch_size, dtype=torch.float64)
        self._length = torch.zeros(batch_size, dtype=torch.int64)
        self._done: list[list[tuple[float, int]]] = [[] for _ in range(batch_size)]

    @property
    def complete(self) -> bool:
        return all(len(done) >= self._quota for done in self._done)

    def observe(self, reward: torch.Tensor, is_first: torch.Tensor, is_last: torch.Tensor) -> None:
        reward = reward.double()
        self._return += reward if reward.dim() == 1 else reward.sum(-1)
        self._length += 1
        self._return[is_first] = 0
        self._length[is_first] = 0
        for index in is_last.nonzero().flatten().tolist():
            self._done[index].append((self._return[index].item(), int(self._length[index])))

    def results(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        kept = [episode for done in self._done for episode in done[: self._quota]]
        returns, lengths = zip(*kept, strict=True)
        return returns, lengths
