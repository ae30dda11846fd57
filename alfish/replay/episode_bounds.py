"""Where the episode of a stored time step begins and ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from alfish.replay.extent import Extent, Integers, spans
from alfish.replay.storage import flat_rows
from alfish.types import StepType


class EpisodeBounds:
    """Numbers the episodes of every environment and notes their bounds; reads a stored time step once, when asked.

    Args:
        extent: what is stored.
        read_step_types: gives the step types at flat rows.
    """

    def __init__(self, extent: Extent, read_step_types: Callable[[Integers], Integers]) -> None:
        self._extent = extent
        self._read_step_types = read_step_types
        num_environments, size = len(extent.newest), len(extent.newest) * extent.max_length
        self._known = np.full(num_environments, -1, np.int64)  # newest position that was read
        self._newest_episode = np.full(num_environments, -1, np.int64)
        self._episode = np.zeros(size, np.int64)  # by flat row
        # By episode number, also a ring: there are never more stored episodes than stored time steps.
        self._begin = np.zeros(size, np.int64)
        self._end = np.zeros(size, np.int64)

    def begin(self, env_ids: Integers, positions: Integers) -> Integers:
        """Position of the FIRST step, or the oldest stored position when FIRST was overwritten."""
        return np.maximum(self._begin[self._slots(env_ids, positions)], self._extent.oldest[env_ids])

    def end(self, env_ids: Integers, positions: Integers) -> Integers:
        """Position of the LAST step, or the newest position when the episode goes on."""
        return self._end[self._slots(env_ids, positions)]

    def _slots(self, env_ids: Integers, positions: Integers) -> Integers:
        self._read_new_steps()
        max_length = self._extent.max_length
        return flat_rows(env_ids, self._episode[flat_rows(env_ids, positions, max_length)], max_length)

    def _read_new_steps(self) -> None:
        extent = self._extent
        begin = np.maximum(self._known + 1, extent.oldest)
        env_ids, positions = spans(begin, extent.newest + 1)
        if not len(env_ids):
            return
        rows = flat_rows(env_ids, positions, extent.max_length)
        # Steps whose FIRST was never read count to the episode before: its beginning is overwritten in any case.
        opens = self._read_step_types(rows) == StepType.FIRST
        # Counted over all environments at once, then from the beginning of each.
        opened = opens.cumsum()
        lengths = np.bincount(env_ids, minlength=len(begin))
        opened_before = np.concatenate(([0], opened))[lengths.cumsum() - lengths]
        episodes = self._newest_episode[env_ids] + opened - opened_before[env_ids]
        slots = flat_rows(env_ids, episodes, extent.max_length)
        self._episode[rows] = episodes
        self._begin[slots[opens]] = positions[opens]
        # Of an index that is repeated numpy keeps the last value: that of the newest step.
        self._end[slots] = positions
        self._newest_episode[env_ids] = episodes
        self._known = extent.newest.copy()
