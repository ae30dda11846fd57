"""Every sequence that can be drawn is equally likely."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from alfish.replay.extent import Integers


class UniformSampler:
    """Draws starts of sequences, all with the same probability, whichever environment they belong to.

    Args:
        generator: the stream of random numbers.
        with_replacement: independent draws. Otherwise one draw from each of `batch_size` equal parts of what can be
            drawn, so that a batch is spread evenly; it comes out ordered by environment and time.
    """

    def __init__(self, generator: torch.Generator, with_replacement: bool = False) -> None:
        self._generator = generator
        self._with_replacement = with_replacement

    def draw(self, first: Integers, end: Integers, batch_size: int) -> tuple[Integers, Integers]:
        """Environments and positions `[B]`, out of the positions `first..end - 1` `[env]`."""
        ends = (end - first).cumsum()  # where each environment ends when all starts are put in one line
        total = int(ends[-1])
        drawn: Integers
        if self._with_replacement:
            drawn = torch.randint(total, (batch_size,), generator=self._generator).numpy()
        else:
            drawn = (strata(batch_size, self._generator) * total).astype(np.int64)
        if len(ends) == 1:
            return np.zeros(batch_size, np.int64), drawn + first
        env_ids = ends.searchsorted(drawn, "right")
        return env_ids, drawn + (end - ends)[env_ids]


def strata(count: int, generator: torch.Generator) -> NDArray[np.float64]:
    """One uniform number from each of `count` equal parts of [0, 1), in order."""
    spread: NDArray[np.float64] = torch.rand(count, generator=generator, dtype=torch.float64).numpy()
    spread += _numbers_below(count)
    spread /= count
    return np.minimum(spread, 1 - 2**-52, out=spread)


@lru_cache(maxsize=16)
def _numbers_below(count: int) -> NDArray[np.float64]:
    # Kept as floats: adding integers to floats would convert them at every draw.
    return np.arange(count, dtype=np.float64)
