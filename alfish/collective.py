"""What processes that train one model together tell each other.

A `Collective` is a process by itself: all is agreed on already, and nothing is sent. The one over several processes is
`alfish.training.distributed.ProcessGroup`. Every rank has to make the same calls in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class Collective:
    """The ranks of a run: 0, which has the run folder, and others that only learn along."""

    rank = 0
    size = 1
    num_local = 1  # ranks on this machine

    def join(self, patience: float) -> None:
        """Once, before anything else: waits until all are there.

        Args:
            patience: seconds after which a rank that does not answer counts as lost, now and in every later call.
        """

    def leave(self) -> None:
        """At the end, when nothing more is to be told. Twice is fine."""

    def sum_(self, tensor: torch.Tensor) -> None:
        """Replaces the elements by their sums over all ranks, which are the same to the bit everywhere."""

    def from_first(self, value: Any) -> Any:
        """What rank 0 has; the others' own values do not matter."""
        return value

    def gathered(self, value: Any) -> list[Any]:
        """What each rank has, by rank."""
        return [value]

    def rows(self, values: Sequence[float]) -> list[list[float]]:
        """The numbers of each rank, by rank. Cheaper than `gathered`."""
        if self.size == 1:
            return [list(values)]
        table = torch.zeros(self.size, len(values), dtype=torch.float64)
        table[self.rank] = torch.tensor(values, dtype=torch.float64)
        self.sum_(table)
        return [list(map(float, row)) for row in table.tolist()]

    def total(self, counts: Sequence[int]) -> list[int]:
        """Each of them summed over all ranks."""
        if self.size == 1:
            return list(counts)
        summed = torch.tensor(counts, dtype=torch.int64)
        self.sum_(summed)
        return [int(count) for count in summed]

    def all(self, flag: bool) -> bool:
        """Whether it is true everywhere."""
        return flag if self.size == 1 else self.total([not flag]) == [0]


def average_gradients(ranks: Collective, parameters: Sequence[nn.Parameter]) -> None:
    """Gives every parameter the mean of its gradients over all ranks, in one exchange.

    A parameter without a gradient counts as zero where another rank has one; where nobody has, it stays without.
    """
    if not parameters:
        return
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
    is_there = gradients[0].new_tensor([each.grad is not None for each in parameters])
    flat = torch.cat([*(gradient.flatten() for gradient in gradients), is_there])
    ranks.sum_(flat)
    *sums, number_there = torch.split(flat, [*(gradient.numel() for gradient in gradients), len(parameters)])
    for parameter, gradient, its_sum, number in zip(parameters, gradients, sums, number_there.tolist(), strict=True):
        parameter.grad = gradient.copy_((its_sum / ranks.size).view_as(gradient)) if number else None
