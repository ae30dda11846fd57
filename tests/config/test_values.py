from __future__ import annotations

import math
from typing import Any

import gin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alfish.config.values import Macro, Reference, is_literal, render, replace_leaves, walk

_leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@given(_values)
def test_gin_reads_back_what_is_rendered(value: Any) -> None:
    assert is_literal(value)
    text = render(value)
    assert "\n" not in text
    assert gin.config.parse_value(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.inf, "1e999"),
        (-math.inf, "-1e999"),
        (Reference("a/b", "Adam", True), "@a/b/Adam()"),
        (Reference("", "Adam", False), "@Adam"),
        (Macro("LR"), "%LR"),
        ((1,), "(1,)"),
        ({"a": [Macro("X"), (Reference("", "F", False), 2)]}, "{'a': [%X, (@F, 2)]}"),
    ],
)
def test_render(value: Any, text: str) -> None:
    assert render(value) == text


@pytest.mark.parametrize("value", [object(), len, math.nan, {1, 2}, [object()], {"a": len}, 1j])
def test_what_cannot_be_written(value: Any) -> None:
    assert not is_literal(value)


def test_walk_and_replace_reach_every_leaf() -> None:
    value = {"a": [1, (2, Macro("X"))], "b": 3}
    assert list(walk(value)) == ["a", 1, 2, Macro("X"), "b", 3]
    assert replace_leaves(value, lambda leaf: 0 if isinstance(leaf, Macro) else leaf) == {"a": [1, (2, 0)], "b": 3}
