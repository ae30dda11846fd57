"""Nests of every kind are walked alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alfish import nest
from alfish.types import AlgStep, record


@record
class Pair:
    left: Any
    right: Any = ()


def build(leaf: Any) -> Any:
    return {"a": leaf(1), "b": (leaf(2), [leaf(3)]), "c": Pair(left=leaf(4), right={"d": leaf(5)}), "e": ()}


nests = st.recursive(
    st.integers(),
    lambda children: st.one_of(
        st.dictionaries(st.text(max_size=3), children, max_size=3),
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.builds(Pair, children, children),
    ),
    max_leaves=12,
)


def test_map_reaches_every_leaf_and_keeps_the_structure() -> None:
    assert nest.map(lambda x: x * 10, build(int)) == {
        "a": 10,
        "b": (20, [30]),
        "c": Pair(40, {"d": 50}),
        "e": (),
    }


def test_map_walks_several_nests_together() -> None:
    assert nest.map(lambda x, y: x - y, build(int), build(lambda i: i - 1)) == build(lambda _: 1)


def test_map_refuses_tuples_of_different_length() -> None:
    with pytest.raises(ValueError, match="shorter"):
        nest.map(lambda x, y: x, (1, 2), (1,))


@given(nests)
def test_leaves_and_unflatten_are_inverse(structure: Any) -> None:
    flat = nest.leaves(structure)
    assert nest.unflatten(structure, flat) == structure
    assert list(nest.named_leaves(structure).values()) == flat
    assert nest.same_structure(structure, nest.map(lambda x: x + 1, structure))


def test_unflatten_refuses_too_many_values() -> None:
    with pytest.raises(ValueError, match="3 values for a structure of 2 leaves"):
        nest.unflatten((1, 2), [1, 2, 3])


def test_paths_name_the_leaves() -> None:
    assert list(nest.named_leaves(build(int))) == ["a", "b.0", "b.1.0", "c.left", "c.right.d"]


@pytest.mark.parametrize("other", [{"a": 1}, (1, 2), Pair(1, 2), [1], 1, AlgStep(1, 2, 3)])
def test_same_structure_tells_kinds_apart(other: Any) -> None:
    assert not nest.same_structure((1,), other)


def test_stack_concat_and_index() -> None:
    one, two = build(lambda i: torch.tensor([i])), build(lambda i: torch.tensor([10 * i]))
    stacked = nest.stack([one, two])
    assert stacked["c"].right["d"].tolist() == [[5], [50]]
    assert nest.concat([one, two])["b"][1][0].tolist() == [3, 30]
    assert nest.index(stacked, 1)["a"].tolist() == [10]


def test_a_stack_of_one_is_a_view() -> None:
    one = build(lambda i: torch.tensor([i]))
    stacked = nest.stack([one])
    assert nest.map(lambda leaf: leaf.tolist(), stacked) == build(lambda i: [[i]])
    assert stacked["c"].left.data_ptr() == one["c"].left.data_ptr()


def test_nests_of_different_structure_are_not_stacked() -> None:
    with pytest.raises(ValueError, match="shorter"):
        nest.stack([(torch.zeros(1), torch.zeros(1)), (torch.zeros(1),)])
    with pytest.raises(KeyError):
        nest.stack([{"a": torch.zeros(1)}, {"b": torch.zeros(1)}])


def test_split_is_the_inverse_of_concat_and_copies_nothing() -> None:
    whole = {"a": torch.arange(10).reshape(2, 5), "b": (torch.arange(5).reshape(1, 5), ())}
    pieces = nest.split(whole, [2, 3], dim=1)
    assert [piece["b"][0].tolist() for piece in pieces] == [[[0, 1]], [[2, 3, 4]]]
    assert torch.equal(nest.concat(pieces, dim=1)["a"], whole["a"])
    assert pieces[0]["a"].data_ptr() == whole["a"].data_ptr()
    assert nest.split((), [2, 3], dim=0) == [(), ()], "what is absent is absent in every piece"
    assert nest.split({}, [2, 3], dim=0) == [{}, {}]
    steps = nest.split(AlgStep(output=torch.arange(5), info=[torch.arange(5)]), [2, 3], dim=0)
    assert [type(step) for step in steps] == [AlgStep, AlgStep]
    assert steps[1].info[0].tolist() == [2, 3, 4]


def test_flatten_time_and_back() -> None:
    leaf = torch.arange(24).reshape(2, 3, 4)
    flat = nest.flatten_time({"x": leaf})
    assert flat["x"].shape == (6, 4)
    assert torch.equal(nest.unflatten_time(flat, 2)["x"], leaf)


def test_where_and_zero_where_choose_rows() -> None:
    ones, twos = torch.ones(3, 2), torch.full((3, 2), 2.0)
    condition = torch.tensor([True, False, True])
    assert nest.where(condition, (ones,), (twos,))[0].tolist() == [[1, 1], [2, 2], [1, 1]]
    assert nest.zero_where(condition, {"h": twos})["h"].tolist() == [[0, 0], [2, 2], [0, 0]]


def test_first_leaf_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no leaf"):
        nest.first_leaf({"a": ()})
