"""Fractions that are carried over instead of being rounded away."""

from __future__ import annotations


class Carry:
    """Turns fractional amounts into whole numbers whose sum is exact.

    >>> carry = Carry()
    >>> [carry.take(2.5) for _ in range(4)]
    [2, 3, 2, 3]
    """

    def __init__(self) -> None:
        self.rest = 0.0

    def take(self, amount: float) -> int:
        total = self.rest + amount
        whole = int(total + 1e-9)  # ten times 0.1 is one, also in floating point
        self.rest = total - whole
        return whole
