"""Fractions add up."""

from __future__ import annotations

import pytest

from alfish.algorithms.carry import Carry


@pytest.mark.parametrize(
    ("amount", "times", "expected"),
    [(2.5, 4, [2, 3, 2, 3]), (0.25, 8, [0, 0, 0, 1, 0, 0, 0, 1]), (3, 2, [3, 3])],
)
def test_whole_parts(amount: float, times: int, expected: list[int]) -> None:
    carry = Carry()
    assert [carry.take(amount) for _ in range(times)] == expected


@pytest.mark.parametrize("amount", [0.1, 0.4, 1 / 3, 2.7])
def test_nothing_is_lost_over_a_thousand_takes(amount: float) -> None:
    carry = Carry()
    assert sum(carry.take(amount) for _ in range(1000)) == int(1000 * amount + 1e-6)
