from __future__ import annotations

import pytest

from alfish.config.helpers import add, divide, item, multiply


def test_ints_stay_ints() -> None:
    for result in (add(1, 2), multiply(3, 4), divide(8, 2)):
        assert type(result) is int
    assert (add(1, 2), multiply(3, 4), divide(8, 2)) == (3, 12, 4)
    assert divide(1, 4) == 0.25
    assert multiply(0.5, 4) == 2.0


def test_item() -> None:
    assert item((1, 2, 3), -1) == 3
    assert item(["a"], 0) == "a"


def test_divide_by_zero() -> None:
    with pytest.raises(ZeroDivisionError):
        divide(1, 0)
