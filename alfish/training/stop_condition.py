"""When to end a run before its budget is used up.

A stop condition is called with an `EvalResult`, which holds the current and the best score. One that remembers has
`state_dict` and `load_state_dict`: a run that goes on gives it back what it knew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, Protocol, TypeGuard

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.training.results import EvalResult

StopCondition = Callable[[EvalResult], bool]


class Remembering(Protocol):
    """A stop condition with a state."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def remembers(condition: object) -> TypeGuard[Remembering]:
    """Whether its state belongs into checkpoints."""
    return hasattr(condition, "state_dict") and hasattr(condition, "load_state_dict")


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

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best, "waited": self._waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._best, self._waited = state["best"], state["waited"]


@configurable
class WallTime:
    """Stops at the first evaluation after some time.

    Args:
        seconds: of the whole run, since it began. In a run that was resumed the time until the checkpoint counts, the
            time between two parts of the run does not.
    """

    def __init__(self, seconds: Annotated[float, Range(above=0)]) -> None:
        self.seconds = seconds
        self._start = time.monotonic()

    def __call__(self, result: EvalResult) -> bool:
        return self._elapsed() >= self.seconds

    def state_dict(self) -> dict[str, Any]:
        return {"elapsed": self._elapsed()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._start -= state["elapsed"]

    def _elapsed(self) -> float:
        return time.monotonic() - self._start
