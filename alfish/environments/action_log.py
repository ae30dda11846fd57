"""The actions of the episodes under way, so that they can be played again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from alfish.environments.spaces import Array

# Episodes that are longer cannot be played again; of a batch of 8 with 6 numbers each these take 20 MB.
MOST_STEPS = 100_000


class ActionLog:
    """Remembers what was done since the beginning of each episode.

    Args:
        batch_size: number of environments.
        most_steps: how far back it reaches.
    """

    def __init__(self, batch_size: int, most_steps: int = MOST_STEPS) -> None:
        self._steps: deque[Sequence[Array]] = deque(maxlen=most_steps)
        self._count = 0  # steps so far; the newest `len(self._steps)` of them are known
        self._began = np.zeros(batch_size, np.int64)  # the first step of each episode

    def add(self, stored: Sequence[Array], first: Sequence[int] = ()) -> None:
        """One step in all environments, and in which of them it only began an episode.

        Args:
            stored: an array `[B, ...]` for each leaf of the action; kept, so it must not be changed.
            first: rows whose action was ignored.
        """
        self._steps.append(stored)
        self._count += 1
        if len(first):
            self.begin(first)

    def begin(self, rows: Sequence[int] | slice) -> None:
        """The next step is the first of an episode in these rows."""
        self._began[rows] = self._count
        needed = self._count - int(self._began.min())
        while len(self._steps) > needed:
            self._steps.popleft()

    def lengths(self) -> list[int]:
        """How many actions each episode has had; -1: too many to be remembered."""
        lengths = self._count - self._began
        return [int(length) if length <= len(self._steps) else -1 for length in lengths]

    def of(self, row: int) -> list[list[Array]]:
        """The actions of the episode in this row: for each step one array for each leaf, without the batch."""
        length = max(0, self.lengths()[row])
        return [[leaf[row] for leaf in step] for step in list(self._steps)[len(self._steps) - length :]]

    def state_dict(self) -> dict[str, Any]:
        return {
            "lengths": (self._count - self._began).tolist(),
            "actions": [torch.from_numpy(np.stack(leaf)) for leaf in zip(*self._steps, strict=True)],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        leaves = [leaf.numpy() for leaf in state["actions"]]
        self._steps.clear()
        self._steps.extend([list(step) for step in zip(*leaves, strict=True)])
        self._count = max([len(self._steps), *state["lengths"]])
        self._began = self._count - np.array(state["lengths"], np.int64)
