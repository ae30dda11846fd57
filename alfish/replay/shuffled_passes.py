"""Everything that is stored, once per pass, in an order that is drawn anew for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from alfish.replay.replay_buffer import ReplayBuffer
from alfish.seeding import Seeds
from alfish.types import Experience


class ShuffledPasses:
    """Goes over the sequences of a buffer that does not change, again and again, in mini batches.

    The order of a pass is a function of the seed and its number, so where it is are two numbers.

    Args:
        replay: what to go over.
        length: time steps of a sequence.
        slices: how the sequences of a pass are cut into mini batches.
        seeds: of the run.
    """

    def __init__(self, replay: ReplayBuffer, length: int, slices: Sequence[slice], seeds: Seeds) -> None:
        self._replay = replay
        self._length = length
        self._env_ids, self._starts = replay.all_sequences(length)
        self._slices = slices
        self._seeds = seeds
        self._pass = 0
        self._place = 0  # of the next mini batch in it
        self._order = self._shuffled()

    @property
    def num_batches(self) -> int:
        """Mini batches of a pass."""
        return len(self._slices)

    def next(self) -> Experience:
        if self._place == self.num_batches:
            self._pass, self._place = self._pass + 1, 0
            self._order = self._shuffled()
        rows = self._order[self._slices[self._place]]
        self._place += 1
        return self._replay.get(self._env_ids[rows], self._starts[rows], self._length)

    def state_dict(self) -> dict[str, Any]:
        return {"pass": self._pass, "place": self._place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._pass, self._place = state["pass"], min(state["place"], self.num_batches)
        self._order = self._shuffled()

    def _shuffled(self) -> torch.Tensor:
        return torch.randperm(len(self._starts), generator=self._seeds.torch("offline_pass", self._pass))
