"""Numbers of which one is found by a prefix sum, however many there are."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from alfish.replay.extent import Integers

Floats = NDArray[np.float64]

_BRANCHES = 16  # children per node: a node is two cache lines, and a million leaves need two levels under the top
_ONES = np.ones(_BRANCHES)  # a product with these adds up in a third of the time of `sum`
_LARGEST_TOP = 16_384  # up to so many nodes are searched at once: to add them up takes less than one level more
_BELOW_ONE = 1 - 2**-52


class SumTree:
    """`size` non-negative numbers, all zero at first. Sums are brought up to date when they are asked for.

    Args:
        size: how many numbers.
    """

    def __init__(self, size: int) -> None:
        self._levels = [_nodes(size)]  # [node, child]; from the leaves up
        while len(self._levels[-1]) > _LARGEST_TOP:
            self._levels.append(_nodes(len(self._levels[-1])))
        self._top = np.zeros(len(self._levels[-1]))
        self._running = self._top.copy()  # sums of the top, up to and with each node
        self._cumulated = torch.from_numpy(self._top), torch.from_numpy(self._running)  # the same memory
        self._leaves = self._levels[0].reshape(-1)
        self._parents = [*(level.reshape(-1) for level in self._levels[1:]), self._top]  # of every level
        self._stale: list[Integers] = []  # leaves that were set since the sums were computed

    @property
    def total(self) -> float:
        self._refresh()
        return float(self._running[-1])

    def get(self, indices: Integers) -> Floats:
        return self._leaves[indices]

    def set(self, indices: Integers, values: Floats | float) -> None:
        """Of an index that is repeated, the last value counts."""
        self._leaves[indices] = values
        self._stale.append(indices)

    def search(self, fractions: Floats) -> tuple[Integers, Floats]:
        """For each fraction `f` in [0, 1) the leaf where the running sum passes `f` times the total, and its value.

        A leaf is found in proportion to its value; one of value zero never is.
        """
        self._refresh()
        sums = self._running
        targets = np.minimum(fractions * sums[-1], sums[-1] * _BELOW_ONE)
        indices: Integers = sums.searchsorted(targets, "right")
        values = self._top.take(indices)
        targets -= sums.take(indices)
        rows = np.arange(0, len(fractions) * _BRANCHES, _BRANCHES)
        for height, level in reversed(list(enumerate(self._levels))):
            targets += values  # from here on since the beginning of the node
            children = level.take(indices, 0)
            sums = torch.from_numpy(children).cumsum(1).numpy()  # several times faster than numpy's
            # Rounding may leave a target just outside its node. Kept below the node's sum, it meets a child above zero.
            np.maximum(targets, 0.0, out=targets)
            np.minimum(targets, sums[:, -1] * _BELOW_ONE, out=targets)
            child = (sums > targets[:, None]).argmax(1)
            indices *= _BRANCHES
            indices += child
            child += rows
            values = children.take(child)
            if height:
                targets -= sums.take(child)
        return indices, values

    def _refresh(self) -> None:
        if not self._stale:
            return
        nodes = self._stale[0] if len(self._stale) == 1 else np.concatenate(self._stale)
        self._stale.clear()
        for level, parent in zip(self._levels, self._parents, strict=True):
            nodes = nodes // _BRANCHES
            if len(nodes) > len(level):  # each once is fewer
                nodes = np.arange(len(level))
            parent[nodes] = level.take(nodes, 0) @ _ONES
        top, running = self._cumulated
        torch.cumsum(top, 0, out=running)


def _nodes(num_children: int) -> Floats:
    return np.zeros((-(-num_children // _BRANCHES), _BRANCHES))
