"""What is stored, by position."""

from __future__ import annotations

import numpy as np

from alfish.replay.extent import Extent, spans


def test_the_newest_position_moves_only_where_data_came_in() -> None:
    extent = Extent(3, 5)
    extent.advance(2, None)
    extent.advance(3, np.array([2, 0]))
    assert extent.newest.tolist() == [5, 2, 5]
    assert extent.oldest.tolist() == [1, 0, 1]
    assert extent.newest_of(np.array([1, 2])).tolist() == [2, 5]
    assert not extent.aligned


def test_environments_that_catch_up_are_aligned_again() -> None:
    extent = Extent(2, 5)
    extent.advance(2, np.array([0]))
    assert not extent.aligned
    extent.advance(2, np.array([1]))
    assert extent.aligned


def test_starts_leave_room_for_the_sequence_and_the_ignored_steps() -> None:
    extent = Extent(2, 8, num_ignored=2)
    assert [bound.tolist() for bound in extent.starts(1)] == [[2, 2], [2, 2]]
    extent.advance(6, None)
    first, end = extent.starts(3)
    assert list(range(first[0], end[0])) == [2, 3, 4]  # of time steps 0..6


def test_starts_are_two_numbers_where_all_environments_hold_the_same() -> None:
    extent = Extent(3, 8, num_ignored=1)
    for steps in (0, 4, 2, 5):
        extent.advance(steps, None)
        for length in (1, 2, 3):
            common = extent.common_starts(length)
            assert common is not None
            assert [bound.tolist() for bound in extent.starts(length)] == [[bound] * 3 for bound in common]
    extent.advance(1, np.array([1]))
    assert extent.common_starts(2) is None


def test_environments_that_hold_more_of_the_past_are_not_aligned() -> None:
    extent = Extent(2, 8)
    extent.restore(np.array([3, 0]), np.array([5, 5]))
    assert not extent.aligned
    assert extent.newest_of(None).tolist() == [5, 5]
    extent.advance(7, None)
    assert extent.aligned, "what they held is overwritten"
    assert extent.oldest.tolist() == [5, 5]
    assert extent.newest.tolist() == [12, 12]


def test_clear_keeps_the_newest_step_and_what_is_ignored_before_it() -> None:
    extent = Extent(1, 8, num_ignored=2)
    extent.advance(5, None)
    extent.clear()
    assert extent.oldest.tolist() == [3]
    first, end = extent.starts(1)
    assert (first[0], end[0]) == (5, 6)


def test_a_shorter_ring_restores_the_newest_part() -> None:
    extent = Extent(2, 4)
    extent.restore(np.array([3, 0]), np.array([9, 1]))
    assert extent.oldest.tolist() == [6, 0]
    assert extent.newest.tolist() == [9, 1]


def test_spans_skip_empty_ranges() -> None:
    which, numbers = spans(np.array([4, 9, 7]), np.array([6, 2, 8]))
    assert which.tolist() == [0, 0, 2]
    assert numbers.tolist() == [4, 5, 7]
