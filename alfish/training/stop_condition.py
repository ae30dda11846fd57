"""When to end a run before its budget is used up.

A stop condition is called with an `EvalResult`, which holds the current and the best score.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Literal

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.training.results import EvalResult

StopCondition = Callable[[EvalResult], bool]


@configurable
class ReturnAtLeast:
    """Stops when the score reaches a value.

    Args:
        value: the score to reach.
        of: 'current' looks at the newest evaluation, 'best' at the best so far.
    """

    def __init__(self, value: float, of: Literal["current", "best"] = "current") -> None:
        self.value = value
        self.of = of

    def __call__(self, result: EvalResult) -> bool:
        return (result.score if self.of == "current" else result.best_score) >= self.value


@configurable
class Plateau:
    """Stops when the best score has not grown for some evaluations.

    Args:
        patience: evaluations without a better score.
        min_delta: growth smaller than this does not count.
    """

    def __init__(
        self, patience: Annotated[int, Range(min=1)] = 5, min_delta: Annotated[float, Range(min=0)] = 0.0
    ) -> None:
        self.patience = patience
        self.min_delta = min_delta
        self._best = float("-inf")
        self._waited = 0

    def __call__(self, result: EvalResult) -> bool:
        if result.score > self._best + self.min_delta:
            self._best, self._waited = result.score, 0
        else:
            self._waited += 1
        return self._waited >= self.patience


@configurable
class WallTime:
    """Stops at the first evaluation after some time.

    Args:
        seconds: since the condition was made, that is, since the start of the run.
    """

    def __init__(self, seconds: Annotated[float, Range(above=0)]) -> None:
        self.seconds = seconds
        self._start = time.monotonic()

    def __call__(self, result: EvalResult) -> bool:
        return time.monotonic() - self._start >= self.seconds
