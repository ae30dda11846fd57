"""The range of a number, written where the argument is declared.

>>> from typing import Annotated
>>> Probability = Annotated[float, Range(min=0, max=1)]
>>> Range(min=0, max=1).contains(2)
False
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """Bounds of a numeric argument, for `Annotated[int, Range(min=1)]`. Bounds left out do not bind.

    Args:
        min: smallest allowed value.
        max: largest allowed value.
        above: the value must be greater than this.
        below: the value must be smaller than this.
    """

    min: float | None = None
    max: float | None = None
    above: float | None = None
    below: float | None = None

    def contains(self, value: float) -> bool:
        """NaN is in no range that has a bound."""
        return (
            (self.min is None or value >= self.min)
            and (self.max is None or value <= self.max)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        """The range as a user reads it: `>= 1`, `in [0, 1]`, `> 0`."""
        low = self.min if self.min is not None else self.above
        high = self.max if self.max is not None else self.below
        if low is None and high is None:
            return "any number"
        if high is None:
            return f"{'>=' if self.min is not None else '>'} {low:g}"
        if low is None:
            return f"{'<=' if self.max is not None else '<'} {high:g}"
        left = "[" if self.min is not None else "("
        right = "]" if self.max is not None else ")"
        return f"in {left}{low:g}, {high:g}{right}"
