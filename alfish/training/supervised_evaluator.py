"""Evaluation on test data: what the algorithm itself says about how good it is, and how sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from alfish.algorithms.supervised.supervised_algorithm import SupervisedAlgorithm
from alfish.errors import ConfigError
from alfish.seeding import Seeds
from alfish.training.evaluator import Evaluated
from alfish.training.results import SupervisedEvalResult


@dataclass(frozen=True)
class SupervisedFinished:
    """The numbers of one evaluation."""

    of: Evaluated
    metrics: Mapping[str, float]
    score: float  # as the algorithm sees it

    def result(self, best_score: float) -> SupervisedEvalResult:
        """With the score of the algorithm; `best_score` is that of all evaluations before."""
        return SupervisedEvalResult(self.metrics, self.of.iteration, best_score, self.score)


class SupervisedEvaluator:
    """Evaluates at once, while training waits.

    Args:
        seeds: of the run.
        eval_uncertainty: ask also how sure the algorithm is.
    """

    pending: Evaluated | None = None  # never

    def __init__(self, seeds: Seeds, eval_uncertainty: bool) -> None:
        self.counts: dict[str, int] = {}
        self._seeds = seeds.child("eval")
        self._eval_uncertainty = eval_uncertainty
        self._finished: list[SupervisedFinished] = []

    def evaluate(self, algorithm: SupervisedAlgorithm) -> dict[str, float]:
        """All numbers, by name."""
        with algorithm.evaluating(self._seeds.torch("action", device=algorithm.device)):
            metrics = dict(algorithm.evaluate())
            if self._eval_uncertainty:
                more = algorithm.eval_uncertainty()
                if twice := sorted(metrics.keys() & more.keys()):
                    raise ConfigError(
                        f"{type(algorithm).__name__}: evaluate and eval_uncertainty both return {', '.join(twice)}"
                    )
                metrics |= more
        return {name: float(value) for name, value in metrics.items()}

    def submit(self, evaluated: Evaluated, algorithm: SupervisedAlgorithm) -> None:
        metrics = self.evaluate(algorithm)
        self._finished.append(SupervisedFinished(evaluated, metrics, algorithm.score(metrics)))

    def take(self) -> list[SupervisedFinished]:
        finished, self._finished = self._finished, []
        return finished

    def wait(self) -> None: ...

    def wait_until_ready(self) -> None: ...

    def give_up(self) -> None: ...

    def close(self) -> None: ...
