"""Evaluation: how well does the policy do, on environments and seeds of its own."""

from __future__ import annotations

from collections.abc import Sequence
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
from alfish.summary.reward_reduction import Reduction, RewardReduction
from alfish.training.results import AnyEvalResult, EvalResult
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

    def result(self, best_score: float) -> EvalResult:
        """Without its score; `best_score` is that of all evaluations before."""
        return EvalResult(self.returns, self.lengths, self.of.iteration, self.of.env_steps, best_score)


def create_eval_environment(num_environments: int) -> Environment:
    """Environments to evaluate in: bindings in the scope `eval/` hold for them, and only for them."""
    with scope("eval"):
        return create_environment(num_parallel_environments=num_environments)


class Evaluator:
    """Plays whole episodes with `predict_step`.

    Every call plays the same episodes: equal parameters give equal returns, and evaluations of one run can be
    compared.
    """

    def __init__(self, env: Environment, seeds: Seeds, reward_reduction: Reduction = None) -> None:
        self.env = env
        self._seeds = seeds
        self._reduction = RewardReduction(reward_reduction, env.reward_spec.shape)

    def evaluate(self, algorithm: RLAlgorithm, num_episodes: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Returns and lengths of the first ceil(N / E) episodes of each of the E environments; -1: one of each.

        Taking equally many from each keeps short episodes from being over-counted.
        """
        env = self.env
        quota = 1 if num_episodes == -1 else ceil(num_episodes / env.batch_size)
        device = next(algorithm.parameters()).device
        episodes = _Episodes(env.batch_size, quota, self._reduction)
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


class FinishedEvaluation(Protocol):
    """An evaluation that has come to its end."""

    @property
    def of(self) -> Evaluated: ...

    def result(self, best_score: float) -> AnyEvalResult:
        """Without the score of `TrainerConfig.score_fn`; `best_score` is that of all evaluations before."""


class RequestedEvaluator(Protocol):
    """Evaluates on request, at once or later."""

    @property
    def counts(self) -> dict[str, int]:
        """What happened to requests so far, for the summaries."""

    @property
    def pending(self) -> Evaluated | None:
        """The newest evaluation whose result is still to come."""

    def submit(self, evaluated: Evaluated, algorithm: Any) -> None:
        """Asks for an evaluation of the algorithm, of the kind that it was made for, as it is now."""

    def take(self) -> Sequence[FinishedEvaluation]:
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
        env = create_eval_environment(config.num_eval_environments)
        self._evaluator = Evaluator(env, seeds.child("eval"), config.reward_reduction)
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
    """Returns and lengths of the first `quota` episodes of each environment."""

    def __init__(self, batch_size: int, quota: int, reduction: RewardReduction) -> None:
        self._quota = quota
        self._reduction = reduction
        self._return: torch.Tensor | None = None  # [B], or [B, R]
        self._length = torch.zeros(batch_size, dtype=torch.int64)
        self._done: list[list[tuple[torch.Tensor, int]]] = [[] for _ in range(batch_size)]

    @property
    def complete(self) -> bool:
        return all(len(done) >= self._quota for done in self._done)

    def observe(self, reward: torch.Tensor, is_first: torch.Tensor, is_last: torch.Tensor) -> None:
        reward = reward.double()
        total = self._return = reward if self._return is None else self._return + reward
        self._length += 1
        total[is_first] = 0
        self._length[is_first] = 0
        for index in is_last.nonzero().flatten().tolist():
            self._done[index].append((total[index].clone(), int(self._length[index])))

    def results(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        kept = [episode for done in self._done for episode in done[: self._quota]]
        returns, lengths = zip(*kept, strict=True)
        return tuple(self._reduction(torch.stack(returns).numpy()).tolist()), lengths
