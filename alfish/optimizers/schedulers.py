"""Numbers that change while a run goes on: learning rates, exploration, clipping ranges, priorities.

A scheduler is a pure function of the run's progress. It remembers nothing, so a run that is resumed, or goes back
to an earlier checkpoint, sees the values that belong to where it is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Annotated, Literal

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.progress import Progress

ProgressType = Literal["percent", "iterations", "env_steps", "updates", "global_counter"]

# The field of `Progress` that each progress type reads. `global_counter` is ALF's name for iterations.
_FIELDS = {
    "percent": "fraction",
    "iterations": "iterations",
    "env_steps": "env_steps",
    "updates": "updates",
    "global_counter": "iterations",
}


class Scheduler(ABC):
    """A number as a function of progress.

    >>> LinearScheduler("iterations", [(0, 1.0), (10, 0.0)])(Progress(iterations=4))
    0.6
    """

    def __init__(self, progress_type: ProgressType) -> None:
        if progress_type not in _FIELDS:
            nearest = get_close_matches(str(progress_type), _FIELDS, n=1)
            hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
            raise ConfigError(
                f"{type(self).__name__}.progress_type = {progress_type!r}: no such progress type. {hint}"
                f"Known: {', '.join(_FIELDS)}"
            )
        self._field = _FIELDS[progress_type]

    def __call__(self, progress: Progress) -> float:
        return progress.follow(self._field, self.at)

    @abstractmethod
    def at(self, position: float) -> float:
        """The value at a position, counted in the scheduler's progress type."""

    def final_value(self) -> float:
        """The value at the end of the run, or, where the end is not known, the one it tends to."""
        return self.at(1.0 if self._field == "fraction" else math.inf)

    def _check_pairs(self, schedule: Sequence[tuple[float, float]], least: int) -> None:
        where = f"{type(self).__name__}.schedule = {schedule!r}"
        try:
            keys = [float(key) for key, _ in schedule]
            values = [float(value) for _, value in schedule]
        except (TypeError, ValueError):
            raise ConfigError(f"{where}: write (progress, value) pairs, such as [(0.5, 1e-3), (1.0, 1e-4)]") from None
        if len(keys) < least:
            raise ConfigError(f"{where}: needs at least {least} (progress, value) pairs")
        for before, after in pairwise(keys):
            if not before < after:
                raise ConfigError(f"{where}: progress must increase, but {after:g} follows {before:g}")
        if not all(map(math.isfinite, keys + values)):
            raise ConfigError(f"{where}: every number must be finite")
        self._check_position("schedule", keys[-1])

    def _check_position(self, argument: str, position: float) -> None:
        if self._field == "fraction" and position > 1:
            raise ConfigError(
                f"{type(self).__name__}.{argument}: {position:g} is beyond the end of the run. "
                "'percent' counts from 0 to 1: half of the run is 0.5"
            )


@configurable
class ConstantScheduler(Scheduler):
    """The same value always.

    Args:
        value: the value.
    """

    def __init__(self, value: float) -> None:
        super().__init__("percent")
        self._value = float(value)

    def __call__(self, progress: Progress) -> float:
        return self._value  # without looking at the progress: who looks at it changes during a run

    def at(self, position: float) -> float:
        return self._value

    def __repr__(self) -> str:
        return f"{self._value:g}"


@configurable
class StepScheduler(Scheduler):
    """One value for each stretch of the run.

    Args:
        progress_type: what counts the progress; 'percent' goes from 0 to 1.
        schedule: (progress, value) pairs: the value holds until the progress is reached. The last one holds for ever.
        warm_up_period: over this much progress the value grows linearly from 0 to what the schedule says.
    """

    def __init__(
        self,
        progress_type: ProgressType,
        schedule: Sequence[tuple[float, float]],
        warm_up_period: Annotated[float, Range(min=0)] = 0.0,
    ) -> None:
        super().__init__(progress_type)
        self._check_pairs(schedule, least=1)
        self._check_position("warm_up_period", warm_up_period)
        self._ends = [float(end) for end, _ in schedule]
        self._values = [float(value) for _, value in schedule]
        self._warm_up_period = warm_up_period

    def at(self, position: float) -> float:
        index = min(bisect_right(self._ends, position), len(self._values) - 1)
        return self._values[index] * warm_up(position, self._warm_up_period)


@configurable
class LinearScheduler(Scheduler):
    """Straight lines between given points.

    Args:
        progress_type: what counts the progress; 'percent' goes from 0 to 1.
        schedule: (progress, value) pairs, the first at progress 0. After the last one its value holds.
    """

    def __init__(self, progress_type: ProgressType, schedule: Sequence[tuple[float, float]]) -> None:
        super().__init__(progress_type)
        self._check_pairs(schedule, least=2)
        if schedule[0][0] != 0:
            raise ConfigError(f"LinearScheduler.schedule = {schedule!r}: the first progress must be 0")
        self._points = [float(point) for point, _ in schedule]
        self._values = [float(value) for _, value in schedule]

    def at(self, position: float) -> float:
        index = bisect_right(self._points, position)
        if index == len(self._points):
            return self._values[-1]
        left, right = self._points[index - 1], self._points[index]
        weight = (position - left) / (right - left)
        return (1 - weight) * self._values[index - 1] + weight * self._values[index]


@configurable
class ExponentialScheduler(Scheduler):
    """`initial_value * decay_rate ** (progress / decay_time)`.

    Args:
        progress_type: what counts the progress; 'percent' goes from 0 to 1.
        initial_value: the value at progress 0.
        decay_rate: the factor per `decay_time`; above 1 the value grows.
        decay_time: progress over which the value changes by `decay_rate`.
    """

    def __init__(
        self,
        progress_type: ProgressType,
        initial_value: float,
        decay_rate: Annotated[float, Range(above=0)],
        decay_time: Annotated[float, Range(above=0)],
    ) -> None:
        super().__init__(progress_type)
        self._initial_value = initial_value
        self._decay_rate = decay_rate
        self._decay_time = decay_time

    def at(self, position: float) -> float:
        return float(self._initial_value * self._decay_rate ** (position / self._decay_time))


@configurable
class CyclicalScheduler(Scheduler):
    """Back and forth between two values.

    Args:
        progress_type: what counts the progress; 'percent' goes from 0 to 1.
        base_lr: the value at progress 0, and at the beginning of every cycle.
        bound_lr: the value in the middle of every cycle; above or below `base_lr`.
        half_cycle_size: progress from `base_lr` to `bound_lr`.
        switch_mode: 'step' holds each value for half a cycle, 'linear' moves evenly between them.
    """

    def __init__(
        self,
        progress_type: ProgressType,
        base_lr: float,
        bound_lr: float,
        half_cycle_size: Annotated[float, Range(above=0)],
        switch_mode: Literal["step", "linear"] = "step",
    ) -> None:
        super().__init__(progress_type)
        if switch_mode not in ("step", "linear"):
            raise ConfigError(f"CyclicalScheduler.switch_mode = {switch_mode!r}: must be 'step' or 'linear'")
        self._check_position("half_cycle_size", half_cycle_size)
        self._base = float(base_lr)
        self._bound = float(bound_lr)
        self._half_cycle_size = half_cycle_size
        self._is_step = switch_mode == "step"

    def at(self, position: float) -> float:
        # The nudge puts 0.3 / 0.1 = 2.9999999999999996 into the half cycle that a person would name.
        halves = position / self._half_cycle_size + 1e-9
        if self._is_step:
            return self._bound if math.floor(halves) % 2 else self._base
        phase = (halves - 1e-9) % 2
        weight = phase if phase <= 1 else 2 - phase
        return (1 - weight) * self._base + weight * self._bound

    def final_value(self) -> float:
        if self._field != "fraction":
            raise ConfigError("CyclicalScheduler has a final value only with progress_type = 'percent'")
        return self.at(1.0)


@configurable
class CosineScheduler(Scheduler):
    """Half a cosine wave from one value to another: slow at both ends.

    Args:
        progress_type: what counts the progress; 'percent' goes from 0 to 1.
        initial_value: the value at progress 0, or after the warm-up.
        last_value: the value from `decay_time` on.
        decay_time: progress at which `last_value` is reached, the warm-up included.
        warm_up_period: over this much progress the value grows linearly from 0 to `initial_value`.
    """

    def __init__(
        self,
        progress_type: ProgressType,
        initial_value: float,
        last_value: float = 0.0,
        decay_time: Annotated[float, Range(above=0)] = 1.0,
        warm_up_period: Annotated[float, Range(min=0)] = 0.0,
    ) -> None:
        super().__init__(progress_type)
        if warm_up_period >= decay_time:
            raise ConfigError(
                f"CosineScheduler.warm_up_period = {warm_up_period:g} leaves nothing of decay_time = {decay_time:g}"
            )
        self._check_position("decay_time", decay_time)
        self._initial_value = initial_value
        self._last_value = last_value
        self._decay_time = decay_time
        self._warm_up_period = warm_up_period

    def at(self, position: float) -> float:
        if position < self._warm_up_period:
            return self._initial_value * warm_up(position, self._warm_up_period)
        done = min(1.0, (position - self._warm_up_period) / (self._decay_time - self._warm_up_period))
        weight = (1 + math.cos(math.pi * done)) / 2
        return weight * self._initial_value + (1 - weight) * self._last_value


def warm_up(position: float, period: float) -> float:
    """A factor that grows from 0 to 1 over `period`; 1 when there is none."""
    return min(1.0, position / period) if period else 1.0


def as_scheduler(value: float | Scheduler) -> Scheduler:
    """A scheduler from what an option holds: a number, or a scheduler already."""
    return value if isinstance(value, Scheduler) else ConstantScheduler(value)


def is_zero(value: float) -> bool:
    """Whether a scheduler says 0. Never of the tensor that stands for what it says while a graph is made."""
    return isinstance(value, (int, float)) and value == 0
