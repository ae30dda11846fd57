"""Episode metrics, computed over all environments and many steps at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from alfish import nest
from alfish.summary.reward_reduction import RewardReduction
from alfish.types import StepType, TimeStep

Array = npt.NDArray[np.float64]


class EpisodeMetrics:
    """Counts steps and episodes, and averages what happened over the latest episodes.

    Every numeric field of `env_info` is summed over an episode; a name that ends in `@step` is averaged over its
    steps, one that ends in `@max` gives its largest value. Values that are not finite are left out, so that an
    environment may report NaN where it has nothing to say. Fields of a FIRST step belong to no episode.

    Args:
        batch_size: number of environments, B.
        reward_shape: `()`, or `(R,)` for vector rewards, whose returns are reported one by one, too.
        window: number of latest episodes to average over.
        reduction: makes one number of the return of an episode with vector rewards; None: their sum.
    """

    def __init__(
        self,
        batch_size: int,
        reward_shape: Sequence[int] = (),
        window: int = 10,
        reduction: RewardReduction | None = None,
    ) -> None:
        self.env_steps = 0
        self.episodes = 0
        self._batch_size = batch_size
        self._return_names = [_RETURN]
        if reward_shape:
            self._return_names = [f"{_RETURN}/{i}" for i in range(int(np.prod(reward_shape)))]
        self._reduction = reduction or RewardReduction(None, reward_shape)
        self._window = window
        self._windows: dict[str, deque[float]] = {}
        # One step within all episodes, as bytes, which are compared at once.
        self._all_mid = np.full(batch_size, StepType.MID, np.int32).tobytes()
        # Sums of the episode under way, by column; see `_columns`. Rewards that are only noted are not in it yet.
        self._noted: list[npt.NDArray[Any]] = []
        self._open: dict[str, Array] = {}

    def observe(self, time_step: TimeStep, start: int = 0) -> None:
        """Takes in the next time steps, `[B, ...]` or `[T, B, ...]`, each exactly once and in order.

        Args:
            time_step: what came.
            start: so many of the T were taken in before.
        """
        step_type = _numpy(time_step.step_type)
        rows = slice(start, None) if step_type.ndim == 2 else None  # None: of one step, a block of one
        if self._is_plain(time_step) and step_type[rows].tobytes() == self._all_mid:
            self._go_on(_numpy(time_step.reward)[rows][0])
        else:
            self._begin_and_end(time_step, rows, step_type[rows].T)

    def _is_plain(self, time_step: TimeStep) -> bool:
        """Whether return and length are all there is, and have been begun."""
        return not time_step.env_info and len(self._open) == 2 and _RETURN in self._open

    def _go_on(self, reward: npt.NDArray[Any]) -> None:
        """One step of every environment, within its episode. When updates follow every step, most calls are such.

        So they are only noted: many in a row are added up in a tenth of the time of one by one.
        """
        self.env_steps += self._batch_size
        self._noted.append(reward.copy())  # what it is a part of may be large
        if len(self._noted) == _MOST_NOTED:
            self._add_up()

    def _add_up(self) -> None:
        if self._noted:
            self._open[_LENGTH] += len(self._noted)
            for reward in self._noted:
                self._open[_RETURN] += reward
            self._noted.clear()

    def _begin_and_end(self, time_step: TimeStep, rows: slice | None, step_type: npt.NDArray[Any]) -> None:
        """`step_type` is `[B, T]`: an episode is one stretch of memory."""
        self._add_up()
        stretches, counted = _stretches(step_type), (step_type != StepType.FIRST).ravel()
        columns = self._columns(time_step, rows, counted)
        self.env_steps += int(counted.sum())
        self.episodes += int(stretches.finished.sum())
        finished: dict[str, Array] = {}
        for name, column in columns.items():
            combine = np.maximum if name.endswith("@max") else np.add
            totals = combine.reduceat(column, stretches.starts)
            if name in self._open:
                earlier = self._open[name][stretches.continued_environment]
                totals[stretches.continued] = combine(totals[stretches.continued], earlier)
            self._open[name] = totals[stretches.last]
            self._open[name][stretches.finished[stretches.last]] = -np.inf if combine is np.maximum else 0.0
            finished[name] = totals[stretches.ended]
        if len(stretches.ended):
            if _RETURN not in finished:
                finished[_RETURN] = self._reduction(np.stack([finished[name] for name in self._return_names], -1))
            self._remember(finished)

    @property
    def average_return(self) -> float | None:
        """Mean return of the latest episodes; None before the first episode ended."""
        return self.results().get(_RETURN)

    @property
    def headline(self) -> tuple[str, float | None]:
        """What people watch, and its value."""
        return "return", self.average_return

    def latest(self, name: str) -> list[float]:
        """The values of the latest episodes behind an average, oldest first."""
        return list(self._windows.get(name, ()))

    def results(self) -> dict[str, float]:
        """Name to value. Averages appear with the first episode that ended."""
        counts: dict[str, float] = {"EnvironmentSteps": self.env_steps, "NumberOfEpisodes": self.episodes}
        averages = {name: float(np.mean(window)) for name, window in self._windows.items() if window}
        return counts | averages

    def state_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts only."""
        self._add_up()
        return {
            "env_steps": self.env_steps,
            "episodes": self.episodes,
            "windows": {name: list(window) for name, window in self._windows.items()},
            "open": {name: column.tolist() for name, column in self._open.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`. With another number of environments, episodes under way are forgotten."""
        self.env_steps = state["env_steps"]
        self.episodes = state["episodes"]
        self._windows = {name: deque(values, maxlen=self._window) for name, values in state["windows"].items()}
        self._noted.clear()
        opened = {name: np.asarray(column, np.float64) for name, column in state["open"].items()}
        self._open = {name: column for name, column in opened.items() if len(column) == self._batch_size}

    def _columns(self, time_step: TimeStep, rows: slice | None, counted: npt.NDArray[np.bool_]) -> dict[str, Array]:
        """What is summed over an episode (or its maximum taken), each `[B * T]`: 0 or -inf where nothing counts."""
        columns: dict[str, Array] = {_LENGTH: counted.astype(np.float64)}
        reward = _numpy(time_step.reward)[rows].astype(np.float64)
        rewards = reward.reshape(*reward.shape[:2], -1)
        for i, name in enumerate(self._return_names):
            columns[name] = np.where(counted, rewards[..., i].T.ravel(), 0.0)
        for key, leaf in nest.named_leaves(time_step.env_info).items():
            value = _numpy(leaf)[rows].astype(np.float64)
            if value.ndim != 2:
                continue
            value = value.T.ravel()
            valid = counted & np.isfinite(value)
            name = f"AverageEnvInfo/{key}"
            columns[name] = np.where(valid, value, -np.inf if key.endswith("@max") else 0.0)
            columns[f"{name}{_COUNT}"] = valid.astype(np.float64)
        return columns

    def _remember(self, finished: dict[str, Array]) -> None:
        for name, totals in finished.items():
            if name.endswith(_COUNT):
                continue
            counts = finished.get(f"{name}{_COUNT}")
            if counts is not None:
                totals, counts = totals[counts > 0], counts[counts > 0]
                if name.endswith("@step"):
                    totals = totals / counts
            self._windows.setdefault(name, deque(maxlen=self._window)).extend(totals.tolist())


_RETURN = "AverageReturn"
_LENGTH = "AverageEpisodeLength"
# Marks the column that counts the valid values of another one.
_COUNT = "#count"
_MOST_NOTED = 64


@dataclass(frozen=True)
class _Stretches:
    """The pieces of episodes in a `[B, T]` block, as indices into its flattened form.

    A piece ends with LAST, before a FIRST, or with the block.
    """

    starts: npt.NDArray[np.intp]
    finished: npt.NDArray[np.bool_]  # per piece: it ends with LAST
    ended: npt.NDArray[np.intp]  # the finished pieces, by the time of their end
    last: npt.NDArray[np.intp]  # the last piece of each environment
    continued: npt.NDArray[np.intp]  # pieces that go on with an episode of the block before
    continued_environment: npt.NDArray[np.intp]


def _stretches(step_type: npt.NDArray[Any]) -> _Stretches:
    batch, length = step_type.shape
    is_start = step_type == StepType.FIRST
    is_start[:, 0] = True
    is_start[:, 1:] |= step_type[:, :-1] == StepType.LAST
    starts = np.flatnonzero(is_start)
    ends = np.append(starts[1:], batch * length) - 1
    flat = step_type.ravel()
    finished = flat[ends] == StepType.LAST
    ended = np.flatnonzero(finished)
    continued = np.flatnonzero((starts % length == 0) & (flat[starts] != StepType.FIRST))
    return _Stretches(
        starts=starts,
        finished=finished,
        ended=ended[np.argsort(ends[ended] % length, kind="stable")],
        last=np.flatnonzero(ends % length == length - 1),
        continued=continued,
        continued_environment=starts[continued] // length,
    )


def _numpy(tensor: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = tensor.numpy(force=True)
    return array
