from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest

from alfish.config.annotation import from_object
from alfish.config.kinds import Misfit, fit
from alfish.config.ranges import Range
from alfish.config.values import Reference


class Part:
    pass


@pytest.mark.parametrize(
    ("annotation", "value", "fitted"),
    [
        (int, 1e6, 1_000_000),
        (int, -2.0, -2),
        (float, 3, 3),
        (float | None, None, None),
        (tuple[int, ...], [1.0, 2], [1, 2]),
        (tuple[int, str], (1, "a"), (1, "a")),
        (dict[str, int], {"a": 2.0}, {"a": 2}),
        (Literal["a", None], None, None),
        (Annotated[int, Range(min=1)], 1.0, 1),
        (int | str, "x", "x"),
        (Any, object, object),
        (int, Reference("", "f", True), Reference("", "f", True)),
        (type[Part], Reference("", "Part", False), Reference("", "Part", False)),
    ],
)
def test_values_that_fit(annotation: Any, value: Any, fitted: Any) -> None:
    result = fit(value, from_object(annotation))
    assert result == fitted
    assert type(result) is type(fitted)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, 1.5, "expects int, got float 1.5"),
        (int, float("inf"), "expects int, got float 1e999"),
        (float, True, "expects float, got bool True"),
        (float, "inf", "expects float, got str 'inf'; infinity is written 1e999"),
        (str | None, 3, "expects str or None, got int 3"),
        (int | None, "none", "expects int or None, got str 'none'; write None"),
        (tuple[int, str], (1,), "expects (int, str), got 1 items: (1,)"),
        (dict[str, int], [1], "expects a dict of str to int, got list [1]"),
        (Literal["a", "b"], "c", "expects 'a' or 'b', got str 'c'"),
        (Literal[1], True, "expects 1, got bool True"),
        (Annotated[float, Range(min=0)], float("nan"), "must be >= 0, got nan"),
        (Annotated[int, Range(min=1)] | None, 0, "must be >= 1, got 0"),
        (Part, 3, "expects a Part (@Name()), got int 3"),
        (Part | None, "x", "expects a Part (@Name()) or None, got str 'x'"),
    ],
)
def test_values_that_do_not(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(Misfit) as caught:
        fit(value, from_object(annotation))
    assert str(caught.value) == message


def test_objects_made_in_python() -> None:
    part = Part()
    assert fit(part, from_object(Part)) is part
    assert fit(len, from_object(type[Part])) is len
