"""Whether environments return what their spaces promise. Runs in workers: imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import gymnasium as gym
import numpy as np

from alfish.environments import spaces
from alfish.environments.spaces import Array

# Steps of a new environment that are checked in full; later ones for shape and dtype only.
NUM_FULL_CHECKS = 10
_MISFIT = "an observation that does not fit"


class ObservationCheck:
    """What is wrong with an observation of `space`; empty when nothing is.

    A dtype fits when numpy counts the conversion to that of the space as `same_kind`. So float64 is converted where
    the space has float32, since environments by the dozen do so and lose nothing that matters; float for integer, or
    signed for unsigned, is an error. Bounds of a Box are not checked: many environments only guess them.
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        self._space = space
        self._structure = spaces.structure(space)
        self._leaves = [_Leaf(path, leaf) for path, leaf in spaces.named_leaves(space).items()]
        self._plain = self._leaves[0] if self._structure is space else None
        self._counts_something = any(leaf.bounds is not None for leaf in self._leaves)

    def quick(self, observation: Any) -> str:
        """Parts, shapes and dtypes."""
        plain = self._plain
        # What nearly every observation is like, decided without a further call.
        if (
            plain is not None
            and observation.__class__ is np.ndarray
            and observation.dtype is plain.dtype
            and observation.shape == plain.shape
        ):
            return ""
        return self._first_problem(observation, _Leaf.misfit)

    def full(self, observation: Any) -> str:
        """Parts, shapes, dtypes, and the range of integers that count something."""
        problem = self.quick(observation)
        if problem or not self._counts_something:
            return problem
        return self._first_problem(observation, _Leaf.out_of_range)

    def _first_problem(self, observation: Any, check: Callable[[_Leaf, Any], str]) -> str:
        try:
            values = spaces.leaf_values(self._structure, observation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            return f"{_MISFIT}: its parts are not those of {self._space} ({type(error).__name__}: {error})"
        for leaf, value in zip(self._leaves, values, strict=True):
            problem = check(leaf, value)
            if problem:
                return f"{_MISFIT}: {problem}"
        return ""


class _Leaf:
    def __init__(self, path: str, space: gym.Space[Any]) -> None:
        self.shape: tuple[int, ...] = space.shape or ()
        self.dtype = np.dtype(space.dtype)
        self._of = f" of {path!r}" if path else ""
        self._space = space
        self._fitting = {self.dtype}
        self.bounds = _bounds(space)

    def misfit(self, value: Any) -> str:
        try:
            array = np.asarray(value)
        except ValueError:
            return f"the value{self._of} is not an array: {value!r}"
        if array.shape != self.shape:
            return f"the shape{self._of} is {array.shape}, its space has {self.shape}"
        if array.dtype not in self._fitting:
            if not np.can_cast(array.dtype, self.dtype, "same_kind"):
                return f"the dtype{self._of} is {array.dtype}, its space has {self.dtype}"
            self._fitting.add(array.dtype)
        return ""

    def out_of_range(self, value: Any) -> str:
        if self.bounds is None:
            return ""
        low, high = self.bounds
        if np.all(np.greater_equal(value, low) & np.less_equal(value, high)):
            return ""
        return f"the value{self._of} is {value}, its space is {self._space}"


def _bounds(space: gym.Space[Any]) -> tuple[Any, Any] | None:
    """Smallest and largest value of what counts something; a Box does not."""
    match space:
        case gym.spaces.Discrete(start=low, n=count) | gym.spaces.MultiDiscrete(start=low, nvec=count):
            return low, low + count - 1
        case gym.spaces.MultiBinary():
            return 0, 1
    return None


class RewardCheck:
    """What is wrong with a reward; empty when nothing is.

    Args:
        shape: `()`, or `(R,)` for a vector reward.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape

    def misfit(self, reward: Any) -> str:
        if reward.__class__ is float and not self._shape:  # nearly every one
            return ""
        array = np.asarray(reward)
        if array.dtype.kind not in "fiub":
            return f"a reward that is no number: {reward!r}"
        if array.shape == self._shape:
            return ""
        return (
            f"a reward of shape {array.shape}, expected {self._shape}. A vector reward is declared by the "
            "environment's attribute reward_space, a Box of shape (R,)."
        )


class FiniteCheck:
    """Finds nan and inf in a batch: arrays `[B, ...]`, always of the same shapes."""

    def __init__(self, names: Sequence[str], fields: Sequence[spaces.Field], batch_size: int) -> None:
        """
        Args:
            names: of the arrays, for messages.
            fields: their shapes without the batch, and their dtypes.
            batch_size: B.
        """
        self._names = tuple(names)
        self._zeros = {
            position: np.zeros((batch_size, *shape), dtype)
            for position, (shape, dtype) in enumerate(fields)
            if np.issubdtype(dtype, np.floating)
        }

    def offenders(self, arrays: Sequence[Array]) -> dict[int, str]:
        """What is not finite, by row of the batch."""
        for position, zeros in self._zeros.items():
            # Zero times nan or inf is nan. One call for the batch; and it cannot overflow, as a sum could.
            if not isfinite(np.vdot(arrays[position], zeros)):
                return self._find(arrays)
        return {}

    def _find(self, arrays: Sequence[Array]) -> dict[int, str]:
        found: dict[int, str] = {}
        for position in self._zeros:
            for row, values in enumerate(arrays[position]):
                if not np.isfinite(values).all():
                    shown = np.array2string(values, threshold=20, separator=", ")
                    found.setdefault(row, f"{self._names[position]} that is not finite: {shown}")
        return found


def observation_names(space: gym.Space[Any]) -> list[str]:
    """What to call the leaves of an observation in a message."""
    return [f"an observation {path!r}" if path else "an observation" for path in spaces.named_leaves(space)]
