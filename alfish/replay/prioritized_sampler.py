"""Sequences drawn in proportion to their priority (Schaul et al., 2016)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from alfish.errors import NumericFault
from alfish.replay.extent import Bound, Integers, spans
from alfish.replay.storage import flat_rows
from alfish.replay.sum_tree import Floats, SumTree
from alfish.replay.uniform_sampler import Strata

PRIORITY_NBYTES = 9  # a float64 and its share of the sums above it

_NONE = np.zeros(0, np.int64)


class PrioritizedSampler:
    """Stratified draws: each of `batch_size` equal parts of the total priority gives one.

    Only positions that can start a sequence have a priority. Which those are is told with every draw, since it
    changes as data come in and with the length of the sequences; a position that is new gets the largest priority
    so far.

    Args:
        num_environments: rings.
        max_length: time steps kept per environment.
        generator: the stream of random numbers.
        initial_priority: of data that come before the first update.
    """

    def __init__(
        self, num_environments: int, max_length: int, generator: torch.Generator, initial_priority: float = 1.0
    ) -> None:
        self._max_length = max_length
        self._strata = Strata(generator)
        self._rings = np.arange(num_environments)[:, None] * max_length  # where each begins among the flat rows
        self._largest = initial_priority
        self._first: Bound = 0  # positions first..end - 1 have a priority
        self._end: Bound = 0
        self._drawn = _NONE  # the flat rows of the newest draw

    @cached_property
    def _tree(self) -> SumTree:
        # Made at the first draw: by then the buffer has looked whether there is enough memory.
        return SumTree(len(self._rings) * self._max_length)

    def draw(self, first: Bound, end: Bound, batch_size: int) -> tuple[Integers, Integers, Floats]:
        """Environments, positions and relative priorities `[B]`, out of the positions `first..end - 1`.

        A relative priority is the priority divided by the mean over all positions that can be drawn.
        """
        self._mark(first, end)
        self._drawn, priorities = self._tree.search(self._strata.draw(batch_size))
        env_ids = self._drawn // self._max_length
        firsts = _of(first, env_ids)
        positions = self._drawn - firsts
        positions %= self._max_length  # since the first; max_length times env_ids drops out
        positions += firsts
        span = end - first
        number = len(self._rings) * span if isinstance(span, int) else int(span.sum())
        priorities *= number / self._tree.total
        return env_ids, positions, priorities

    def update(self, env_ids: Integers, positions: Integers, priorities: Floats) -> None:
        """New priorities `[B]`; those of positions that were overwritten meanwhile are dropped."""
        self._check(priorities)
        # As unsigned numbers those before the first are larger than all others.
        span = np.asarray(_of(self._end - self._first, env_ids), np.uint64)
        known = (positions - _of(self._first, env_ids)).view(np.uint64) < span
        if not _least(known):
            env_ids, positions, priorities = env_ids[known], positions[known], priorities[known]
        self._tree.set(flat_rows(env_ids, positions, self._max_length), priorities)

    def update_newest(self, priorities: Floats) -> None:
        """New priorities `[B]` of the newest draw: where these lie is known, and that they are still there."""
        self._check(priorities)
        self._tree.set(self._drawn, priorities)

    def _check(self, priorities: Floats) -> None:
        """Also notes the largest."""
        least, largest = _least(priorities), priorities.item(priorities.argmax())
        if not (least > 0 and largest < np.inf):
            raise NumericFault(
                f"priorities must be positive and finite, these lie between {least} and {largest}: "
                "look at LossInfo.priority; TrainerConfig.priority_replay_eps above 0 allows priorities of 0"
            )
        self._largest = max(self._largest, largest)

    def state_dict(self) -> dict[str, Any]:
        first, end = (np.broadcast_to(bound, len(self._rings)).astype(np.int64) for bound in (self._first, self._end))
        env_ids, positions = spans(first, end)
        return {
            "largest": self._largest,
            "first": torch.from_numpy(first),
            "end": torch.from_numpy(end),
            "priorities": torch.from_numpy(self._tree.get(flat_rows(env_ids, positions, self._max_length))),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes the priorities of as many positions as the ring holds, the newest ones."""
        self._mark(0, 0)
        saved_first, end = state["first"].numpy(), state["end"].numpy().copy()
        env_ids, positions = spans(saved_first, end)
        first = np.maximum(saved_first, end - self._max_length)
        kept = positions >= first[env_ids]
        self._first, self._end = first, end
        rows = flat_rows(env_ids[kept], positions[kept], self._max_length)
        self._tree.set(rows, state["priorities"].numpy()[kept])
        self._largest = float(state["largest"])

    def _mark(self, first: Bound, end: Bound) -> None:
        """Brings the positions that have a priority from those of the last draw to `first..end - 1`."""
        before, until = self._first, self._end
        if _same(first, before) and _same(end, until):
            return
        # Where all environments hold the same, a handful of numbers is all there is to compare.
        alike = all(isinstance(bound, int) for bound in (before, until, first, end))
        least, most = (min, max) if alike else (np.minimum, np.maximum)
        for begin, stop, priority in (
            # What left before what came: a new position may take the place of an old one.
            (before, least(until, first), 0.0),
            (most(before, end), until, 0.0),
            (first, least(end, before), self._largest),
            (most(first, until), end, self._largest),
        ):
            rows = self._rows(begin, stop)
            if len(rows):
                self._tree.set(rows, priority)
        self._first, self._end = first, end

    def _rows(self, first: Bound, end: Bound) -> Integers:
        """The flat rows of the positions `first..end - 1`."""
        if isinstance(first, int) and isinstance(end, int):
            if first >= end:
                return _NONE
            # After every step there is one for each environment: half the time.
            places = first % self._max_length if end - first == 1 else np.arange(first, end) % self._max_length
            return (self._rings + places).reshape(-1)
        return flat_rows(*spans(*np.broadcast_arrays(first, end)), self._max_length)


def importance_weights(relative: Floats, beta: float, by_max: bool) -> NDArray[np.float32]:
    """Weights `[B]` that make up for drawing by priority: `relative ** -beta`; by their maximum, if asked for."""
    weights = relative**-beta
    if by_max:
        weights /= weights.max()
    return weights.astype(np.float32)


def _of(bound: Bound, env_ids: Integers) -> Bound:
    return bound if isinstance(bound, int) else bound.take(env_ids)


def _least(values: NDArray[Any]) -> Any:
    """NaN if there is one."""
    return values.item(values.argmin())  # a fifth of the time that `min` and `all` take


def _same(one: Bound, other: Bound) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return np.array_equal(one, other)
