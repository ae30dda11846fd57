"""The tree finds what a running sum over a plain array finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alfish.replay.sum_tree import SumTree


def naive(values: np.ndarray, fractions: np.ndarray) -> np.ndarray:
    return values.cumsum().searchsorted(fractions * values.sum(), "right")


@pytest.mark.parametrize("size", [1, 15, 16, 17, 5000, 70_000, 1_200_000])
def test_it_finds_what_a_running_sum_finds(size: int) -> None:
    generator = np.random.default_rng(size)
    values = generator.integers(0, 4, size).astype(float)  # whole numbers: both ways of summing are exact
    values[size // 2] = 1
    tree = SumTree(size)
    tree.set(np.arange(size), values)
    fractions = generator.random(2000)
    found, of_value = tree.search(fractions)
    assert tree.total == values.sum()
    assert (found == naive(values, fractions)).all()
    assert (of_value == values[found]).all()


def test_a_boundary_belongs_to_the_number_after_it() -> None:
    tree = SumTree(4)
    tree.set(np.arange(4), np.array([1.0, 0.0, 2.0, 1.0]))
    assert tree.search(np.array([0.0, 0.25, 0.5, 0.75]))[0].tolist() == [0, 2, 2, 3]


def test_setting_again_replaces_and_the_last_of_a_repeated_index_counts() -> None:
    tree = SumTree(3000)
    tree.set(np.array([7, 2999, 7]), np.array([5.0, 1.0, 3.0]))
    assert tree.total == 4
    tree.set(np.array([7]), 0.0)
    assert tree.total == 1
    assert tree.search(np.array([0.0, 0.5, 0.999]))[0].tolist() == [2999] * 3
    assert tree.get(np.array([7, 2999])).tolist() == [0, 1]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=100), st.floats(0, 1, exclude_max=True))
def test_a_zero_is_never_found_whatever_the_rounding(values: list[float], fraction: float) -> None:
    numbers = np.array([*values, 1e-3])
    tree = SumTree(len(numbers) + 40)
    tree.set(np.arange(len(numbers)), numbers)
    found, value = tree.search(np.array([fraction, 1 - 2**-53]))
    assert (value > 0).all()
    assert (numbers[found] == value).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_zero_is_not_found_at_the_very_edges_of_its_neighbours(seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = generator.random(5000) * 10.0 ** generator.integers(-8, 8, 5000)
    values[generator.random(5000) < 0.7] = 0
    tree = SumTree(5000)
    tree.set(np.arange(5000), values)
    edges = values.cumsum() / tree.total
    fractions = np.clip(np.concatenate((edges, np.nextafter(edges, 0), np.nextafter(edges, 1))), 0, 1 - 2**-53)
    found, value = tree.search(fractions)
    assert (value > 0).all()
    assert (values[found] == value).all()


def test_sums_do_not_depend_on_the_order_in_which_they_were_made() -> None:
    """Else a resumed run would differ from one that was not interrupted."""
    generator = np.random.default_rng(0)
    values, grown, made = generator.random(100_000), SumTree(100_000), SumTree(100_000)
    for part in np.array_split(generator.permutation(100_000), 50):
        grown.set(part, values[part])
        grown.search(np.array([0.5]))
    made.set(np.arange(100_000), values)
    assert grown.total == made.total
    fractions = generator.random(1000)
    assert (grown.search(fractions)[0] == made.search(fractions)[0]).all()


@pytest.mark.parametrize("size", [40, 5000, 300_000])
def test_many_settings_between_two_searches_leave_the_same_sums_as_one_by_one(size: int) -> None:
    generator, at_once, one_by_one = np.random.default_rng(size), SumTree(size), SumTree(size)
    for _ in range(40):  # more than there are nodes, of any level
        indices, values = generator.integers(0, size, size // 10), generator.random(size // 10)
        at_once.set(indices, values)
        one_by_one.set(indices, values)
        assert one_by_one.total > 0
    fractions = generator.random(1000)
    assert at_once.total == one_by_one.total
    for left, right in zip(at_once.search(fractions), one_by_one.search(fractions), strict=True):
        assert left.tolist() == right.tolist()
