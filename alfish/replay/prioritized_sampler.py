"""Sequences drawn in proportion to their priority (Schaul et al., 2016)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from alfish.errors import NumericFault
from alfish.replay.extent import Integers, spans
from alfish.replay.storage import flat_rows
from alfish.replay.sum_tree import Floats, SumTree
from alfish.replay.uniform_sampler import strata

PRIORITY_NBYTES = 9  # a float64 and its share of the sums above it


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
        self._generator = generator
        self._size = num_environments * max_length
        self._largest = initial_priority
        self._first = np.zeros(num_environments, np.int64)  # positions first..end - 1 have a priority
        self._end = np.zeros(num_environments, np.int64)

    @cached_property
    def _tree(self) -> SumTree:
        # Made at the first draw: by then the buffer has looked whether there is enough memory.
        return SumTree(self._size)

    def draw(self, first: Integers, end: Integers, batch_size: int) -> tuple[Integers, Integers, Floats]:
        """Environments, positions and relative priorities `[B]`, out of the positions `first..end - 1` `[env]`.

        A relative priority is the priority divided by the mean over all positions that can be drawn.
        """
        self._mark(first, end)
        leaves, priorities = self._tree.search(strata(batch_size, self._generator))
        env_ids = leaves // self._max_length
        firsts = first.take(env_ids)
        leaves -= firsts
        leaves %= self._max_length  # positions since the first; max_length times env_ids drops out
        priorities *= int((end - first).sum()) / self._tree.total
        return env_ids, firsts + leaves, priorities

    def update(self, env_ids: Integers, positions: Integers, priorities: Floats) -> None:
        """New priorities `[B]`; those of positions that were overwritten meanwhile are dropped."""
        largest = priorities.max().item()
        if not (priorities.min() > 0 and largest < np.inf):
            raise NumericFault(
                f"priorities must be positive and finite, these lie between {priorities.min()} and {largest}: "
                "look at LossInfo.priority; TrainerConfig.priority_replay_eps above 0 allows priorities of 0"
            )
        known = (positions >= self._first.take(env_ids)) & (positions < self._end.take(env_ids))
        if not known.all():
            env_ids, positions, priorities = env_ids[known], positions[known], priorities[known]
        self._tree.set(flat_rows(env_ids, positions, self._max_length), priorities)
        self._largest = max(self._largest, largest)

    def state_dict(self) -> dict[str, Any]:
        env_ids, positions = spans(self._first, self._end)
        return {
            "largest": self._largest,
            "first": torch.from_numpy(self._first.copy()),
            "end": torch.from_numpy(self._end.copy()),
            "priorities": torch.from_numpy(self._tree.get(flat_rows(env_ids, positions, self._max_length))),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes the priorities of as many positions as the ring holds, the newest ones."""
        self._mark(np.zeros_like(self._first), np.zeros_like(self._end))
        saved_first, self._end = state["first"].numpy(), state["end"].numpy().copy()
        env_ids, positions = spans(saved_first, self._end)
        self._first = np.maximum(saved_first, self._end - self._max_length)
        kept = positions >= self._first[env_ids]
        rows = flat_rows(env_ids[kept], positions[kept], self._max_length)
        self._tree.set(rows, state["priorities"].numpy()[kept])
        self._largest = float(state["largest"])

    def _mark(self, first: Integers, end: Integers) -> None:
        """Brings the positions that have a priority from those of the last draw to `first..end - 1`."""
        if (first == self._first).all() and (end == self._end).all():
            return
        # What left before what came: a new position may take the place of an old one.
        left = ((self._first, np.minimum(self._end, first)), (np.maximum(self._first, end), self._end))
        came = ((first, np.minimum(end, self._first)), (np.maximum(first, self._end), end))
        which, positions = spans(*map(np.concatenate, zip(*left, *came, strict=True)))
        num_environments = len(first)
        rows = flat_rows(which % num_environments, positions, self._max_length)
        self._tree.set(rows, np.where(which < 2 * num_environments, 0.0, self._largest))
        self._first, self._end = first.copy(), end.copy()
