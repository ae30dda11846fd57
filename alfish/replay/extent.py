"""Which positions in time are stored for each environment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Bound = Integers | int  # a position of every environment, `[env]`, or one that is that of all


class Extent:
    """The oldest and the newest stored position of every environment.

    A position counts the time steps of its environment from 0 and is never reused; its place in the ring is the
    remainder by `max_length`.

    Args:
        num_environments: rings.
        max_length: time steps kept per environment.
        num_ignored: how many of the oldest stored time steps start no sequence.
    """

    def __init__(self, num_environments: int, max_length: int, num_ignored: int = 0) -> None:
        self.max_length = max_length
        self.num_ignored = num_ignored
        self.oldest = np.zeros(num_environments, np.int64)
        self.newest = np.full(num_environments, -1, np.int64)
        self.aligned = True  # all environments hold the same positions

    def newest_of(self, env_ids: Integers | None) -> Bound:
        """Where the next data of these environments go `[B]`: their first time step is the newest one again."""
        if env_ids is None and self.aligned:
            return max(self.newest.item(0), 0)
        return np.maximum(self.newest if env_ids is None else self.newest[env_ids], 0)

    def advance(self, num_steps: int, env_ids: Integers | None) -> None:
        """`num_steps` more were stored for these environments; None: for all."""
        newest = self.newest_of(env_ids) + num_steps
        if isinstance(newest, int):
            self.advance_all_to(newest)
            return
        self.newest[slice(None) if env_ids is None else env_ids] = newest
        np.maximum(self.oldest, self.newest - (self.max_length - 1), out=self.oldest)
        self.aligned = self._are_alike()

    def advance_all_to(self, newest: int) -> None:
        """The environments, which hold the same positions, now reach to `newest`."""
        self.newest.fill(newest)  # as after every step: filling is cheaper than computing
        self.oldest.fill(max(self.oldest.item(0), newest - (self.max_length - 1)))

    def starts(self, length: int) -> tuple[Integers, Integers]:
        """First and end (exclusive) of the positions where a sequence of `length` time steps can start, `[env]`."""
        first = self.oldest + self.num_ignored
        return first, np.maximum(self.newest + (2 - length), first)

    def common_starts(self, length: int) -> tuple[int, int] | None:
        """The same as two numbers, where they are those of every environment; else None."""
        if not self.aligned:
            return None
        first = self.oldest.item(0) + self.num_ignored
        return first, max(self.newest.item(0) + 2 - length, first)

    def clear(self) -> None:
        """Forgets all but the newest time step and the ignored ones before it."""
        np.maximum(self.oldest, self.newest - self.num_ignored, out=self.oldest)

    def restore(self, oldest: Integers, newest: Integers) -> None:
        """What another extent had; of more than `max_length` time steps the newest stay."""
        self.newest[:] = newest
        np.maximum(oldest, newest - (self.max_length - 1), out=self.oldest)
        np.maximum(self.oldest, 0, out=self.oldest)
        self.aligned = self._are_alike()

    def _are_alike(self) -> bool:
        return bool((self.newest == self.newest[0]).all() and (self.oldest == self.oldest[0]).all())


def spans(first: Integers, end: Integers) -> tuple[Integers, Integers]:
    """All numbers of the ranges `first[i]..end[i] - 1`, one range after the other, and the `i` of each.

    >>> spans(np.array([5, 0]), np.array([7, 1]))
    (array([0, 0, 1]), array([5, 6, 0]))
    """
    counts = np.maximum(end - first, 0)
    which = np.arange(len(counts)).repeat(counts)
    return which, np.arange(len(which)) + (first - counts.cumsum() + counts)[which]
