"""How the return of an episode with a vector reward becomes one number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from alfish.config.problems import ConfigProblems, Problem

Array = npt.NDArray[np.float64]
Reduction = Literal["sum", "mean", "min", "max"] | Sequence[float] | Callable[..., float] | None


class RewardReduction:
    """Reduces returns; those of scalar rewards stay as they are.

    >>> RewardReduction("mean", (2,))(np.array([[1.0, 3.0], [0.0, 10.0]]))
    array([2., 5.])

    Args:
        how: see `TrainerConfig.reward_reduction`.
        reward_shape: `()`, or `(R,)`.

    Raises:
        ConfigProblems: there is not a weight for each reward, or the callable gives no number.
    """

    def __init__(self, how: Reduction = None, reward_shape: Sequence[int] = ()) -> None:
        self._how: Any = how
        self._is_vector = tuple(reward_shape) != ()
        if self._is_vector:
            self._check(int(np.prod(reward_shape)))

    def __call__(self, returns: Array) -> Array:
        """`[N, R]` returns of N episodes as `[N]`; `[N]` unchanged."""
        if not self._is_vector:
            return returns
        rows = returns.reshape(len(returns), -1)
        if callable(self._how):
            return np.array([float(self._how(tuple(row.tolist()))) for row in rows], np.float64)
        if self._how is None or isinstance(self._how, str):
            reduced: Array = getattr(rows, self._how or "sum")(-1)
            return reduced
        return rows @ np.asarray(self._how, np.float64)

    def _check(self, number: int) -> None:
        if callable(self._how):
            try:
                value = self._how((1.0,) * number)
            except Exception as error:
                raise _problem(f"raised {type(error).__name__} for a return of {number} ones: {error}") from error
            if not isinstance(value, Real):
                raise _problem(
                    f"gave {type(value).__name__} for a return of {number} ones; it gets the {number} sums of an "
                    "episode as a tuple, and gives one number"
                )
        elif self._how is not None and not isinstance(self._how, str) and len(self._how) != number:
            raise _problem(f"has {len(self._how)} weights, but the reward has {number} elements. Give one for each")


def _problem(message: str) -> ConfigProblems:
    return ConfigProblems([Problem(("TrainerConfig.reward_reduction",), message)])
