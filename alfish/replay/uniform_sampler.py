"""Every sequence that can be drawn is equally likely."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from alfish.replay.extent import Extent, Integers

Floats = NDArray[np.float64]

_BELOW_ONE = 1 - 2**-52


class UniformSampler:
    """Draws starts of sequences, all with the same probability, whichever environment they belong to.

    Args:
        generator: the stream of random numbers.
        with_replacement: independent draws. Otherwise one draw from each of `batch_size` equal parts of what can be
            drawn, so that a batch is spread evenly; it comes out ordered by environment and time.
        recent_steps: how many of the newest starts of each environment count as recent.
        recent_ratio: part of every batch of `draw_from` that is drawn from these alone.
    """

    def __init__(
        self,
        generator: torch.Generator,
        with_replacement: bool = False,
        recent_steps: int = 1,
        recent_ratio: float = 0.0,
    ) -> None:
        self._generator = generator
        self._strata = Strata(generator)
        self._with_replacement = with_replacement
        self._recent_steps = recent_steps
        self._recent_ratio = recent_ratio

    def draw_from(self, extent: Extent, length: int, batch_size: int) -> tuple[Integers, Integers]:
        """Environments and positions `[B]` of sequences of `length` time steps; those of recent data come first."""
        num_recent = round(self._recent_ratio * batch_size)
        common = extent.common_starts(length)
        if common and not num_recent:
            return self.draw_alike(*common, len(extent.newest), batch_size)
        first, end = extent.starts(length)
        if not num_recent:
            return self.draw(first, end, batch_size)
        recent = self.draw(np.maximum(first, end - self._recent_steps), end, num_recent)
        others = self.draw(first, end, batch_size - num_recent)
        return np.concatenate((recent[0], others[0])), np.concatenate((recent[1], others[1]))

    def draw(self, first: Integers, end: Integers, batch_size: int) -> tuple[Integers, Integers]:
        """Environments and positions `[B]`, out of the positions `first..end - 1` `[env]`."""
        ends = (end - first).cumsum()  # where each environment ends when all starts are put in one line
        drawn = self._draw(int(ends[-1]), batch_size)
        env_ids = ends.searchsorted(drawn, "right")
        return env_ids, drawn + (end - ends)[env_ids]

    def draw_alike(self, first: int, end: int, num_environments: int, batch_size: int) -> tuple[Integers, Integers]:
        """The same draws, with fewer operations, where every environment has the positions `first..end - 1`."""
        drawn = self._draw(num_environments * (end - first), batch_size)
        if num_environments == 1:
            drawn += first
            return np.zeros(batch_size, np.int64), drawn
        env_ids, positions = np.divmod(drawn, end - first)
        positions += first
        return env_ids, positions

    def _draw(self, total: int, batch_size: int) -> Integers:
        """Numbers below `total`, `[B]`."""
        drawn: Integers
        if self._with_replacement:
            drawn = torch.randint(total, (batch_size,), generator=self._generator).numpy()
        else:
            spread = self._strata.draw(batch_size)
            spread *= total
            drawn = spread.astype(np.int64)
        return drawn


class Strata:
    """Draws one uniform number from each of equal parts of [0, 1).

    Args:
        generator: the stream of random numbers.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._memory: dict[int, tuple[torch.Tensor, Floats, Floats]] = {}  # by count; see `draw`

    def draw(self, count: int) -> Floats:
        """Of `count` parts, in order."""
        if count not in self._memory:
            # Kept, since making a tensor takes longer than its random numbers. Floats: integers would be converted.
            with torch.inference_mode(False):
                kept = torch.empty(count, dtype=torch.float64)
            self._memory[count] = kept, kept.numpy(), np.arange(count, dtype=np.float64)
        tensor, numbers, parts = self._memory[count]
        tensor.uniform_(generator=self._generator)
        spread: Floats = numbers + parts
        spread /= count
        if count and spread[-1] > _BELOW_ONE:  # by rounding; no other part ends there
            spread[-1] = _BELOW_ONE
        return spread
