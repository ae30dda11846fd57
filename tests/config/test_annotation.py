from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Optional, Protocol, Union

import pytest

from alfish.config.annotation import ANYTHING, from_object, from_source
from alfish.config.kinds import Bounded, Choice, Kind, Made, OneOf, Scalar, Several, Table
from alfish.config.ranges import Range

INT, FLOAT, STR, NONE = Scalar(int), Scalar(float), Scalar(str), Scalar(type(None))


class Part:
    pass


class Callback(Protocol):
    def __call__(self) -> None: ...


BOTH_WAYS: dict[str, Kind] = {
    "int": INT,
    "bool": Scalar(bool),
    "None": NONE,
    "int | None": OneOf((INT, NONE)),
    "Optional[int]": OneOf((INT, NONE)),
    "Union[int, str, None]": OneOf((INT, STR, NONE)),
    "tuple[int, ...]": Several((INT,)),
    "tuple[int, str]": Several((INT, STR), length=2),
    "Sequence[tuple[int, int]]": Several((Several((INT, INT), length=2),)),
    "Iterable[str]": Several((STR,)),
    "list[float]": Several((FLOAT,)),
    "dict[str, int]": Table(STR, INT),
    "Mapping[str, float]": Table(STR, FLOAT),
    "Literal['a', 1]": Choice(("a", 1)),
    "Annotated[int, Range(min=1)]": Bounded(INT, Range(min=1)),
    "Annotated[float, Range(above=0, max=1)] | None": OneOf((Bounded(FLOAT, Range(above=0, max=1)), NONE)),
    "Callable[..., int]": Made("callable", is_callable=True),
    "type[Part]": Made("callable", is_callable=True),
    "Any": ANYTHING,
    "Any | None": ANYTHING,
    "object": ANYTHING,
}


def _source(text: str) -> Kind:
    return from_source(ast.parse(text, mode="eval").body, lambda name: Made(name))


@pytest.mark.parametrize("text", BOTH_WAYS)
def test_source_and_object_agree(text: str) -> None:
    assert _source(text) == BOTH_WAYS[text]
    assert from_object(eval(text)) == BOTH_WAYS[text]


def test_classes() -> None:
    assert _source("Part | None") == OneOf((Made("Part"), NONE))
    assert from_object(Part | None) == OneOf((Made("Part", type=Part), NONE))


def test_quoted_annotation() -> None:
    assert _source("'int | None'") == OneOf((INT, NONE))


def test_what_is_not_understood_is_not_checked() -> None:
    assert _source("x if y else z") == ANYTHING
    assert from_object(Callback) == ANYTHING
    assert from_object(Any) == ANYTHING


USED = (Annotated, Callable, Iterable, Mapping, Sequence, Literal, Optional, Union)
