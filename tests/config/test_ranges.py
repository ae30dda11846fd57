from __future__ import annotations

import math

import pytest

from alfish.config.ranges import Range


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "text"),
    [
        (Range(min=1), [1, 2, math.inf], [0, 0.999, math.nan], ">= 1"),
        (Range(max=1), [1, -math.inf], [1.001], "<= 1"),
        (Range(above=0), [1e-9], [0, -1], "> 0"),
        (Range(below=0.5), [0.4999], [0.5], "< 0.5"),
        (Range(min=0, max=1), [0, 0.5, 1], [-0.1, 1.1], "in [0, 1]"),
        (Range(above=0, below=1), [0.5], [0, 1], "in (0, 1)"),
        (Range(above=0, max=1), [1], [0], "in (0, 1]"),
        (Range(), [-1, math.nan], [], "any number"),
    ],
)
def test_bounds(bounds: Range, inside: list[float], outside: list[float], text: str) -> None:
    assert all(bounds.contains(value) for value in inside)
    assert not any(bounds.contains(value) for value in outside)
    assert str(bounds) == text
