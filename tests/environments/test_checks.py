from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from alfish.environments.checks import FiniteCheck, ObservationCheck, RewardCheck, observation_names

BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
NESTED = gym.spaces.Dict({"place": BOX, "parts": gym.spaces.Tuple((gym.spaces.Discrete(4, start=1), BOX))})
SPACES = [
    BOX,
    NESTED,
    gym.spaces.Box(0, 255, (2, 2), np.uint8),
    gym.spaces.Discrete(3),
    gym.spaces.MultiDiscrete([2, 3]),
    gym.spaces.MultiBinary(4),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_members_of_a_space_fit(space: gym.Space[Any]) -> None:
    space.seed(0)
    check = ObservationCheck(space)
    for _ in range(5):
        sample = space.sample()
        assert check.full(sample) == check.quick(sample) == ""


@pytest.mark.parametrize(
    ("observation", "problem"),
    [
        (np.zeros(1, np.float32), "the shape is (1,), its space has (3,)"),  # numpy would broadcast it
        (np.zeros(4, np.float32), "the shape is (4,), its space has (3,)"),
        (np.float32(0), "the shape is (), its space has (3,)"),
        (np.zeros(3, np.complex64), "the dtype is complex64, its space has float32"),
        (["a", "b", "c"], "the dtype is <U1, its space has float32"),
        ([1.0, [2.0], 3.0], "the value is not an array: [1.0, [2.0], 3.0]"),
    ],
)
def test_misfits_are_described(observation: Any, problem: str) -> None:
    check = ObservationCheck(BOX)
    assert check.quick(observation) == check.full(observation) == f"an observation that does not fit: {problem}"


def test_floats_of_another_precision_and_integers_are_converted() -> None:
    check = ObservationCheck(BOX)
    for dtype in (np.float64, np.float16, np.int64, np.bool_):
        assert check.full(np.zeros(3, dtype)) == ""
    assert check.full([0.0, 1.0, 2.0]) == ""
    pictures = ObservationCheck(gym.spaces.Box(0, 255, (1,), np.uint8))
    for wrong in (np.float32, np.int64):
        assert "its space has uint8" in pictures.quick(np.zeros(1, wrong))


def test_the_part_that_does_not_fit_is_named() -> None:
    check = ObservationCheck(NESTED)
    good = {"place": np.zeros(3), "parts": (1, np.zeros(3))}
    assert check.full(good) == ""
    assert "the shape of 'parts.1' is (2,)" in check.quick({**good, "parts": (1, np.zeros(2))})
    assert "KeyError: 'parts'" in check.quick({"place": np.zeros(3)})
    # The range of what counts something is part of the full check only.
    out = {**good, "parts": (0, np.zeros(3))}
    assert check.quick(out) == ""
    assert check.full(out) == "an observation that does not fit: the value of 'parts.0' is 0, its space is " + str(
        NESTED["parts"][0]
    )


@pytest.mark.parametrize(
    ("shape", "reward", "problem"),
    [
        ((), 1.0, ""),
        ((), np.float32(1), ""),
        ((), True, ""),
        ((2,), np.zeros(2), ""),
        ((), np.zeros(1), "a reward of shape (1,), expected ()"),
        ((2,), 1.0, "a reward of shape (), expected (2,)"),
        ((), None, "a reward that is no number: None"),
    ],
)
def test_rewards(shape: tuple[int, ...], reward: Any, problem: str) -> None:
    found = RewardCheck(shape).misfit(reward)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_found_by_row_and_name(bad: float) -> None:
    fields = [((3,), np.dtype(np.float32)), ((), np.dtype(np.int64)), ((), np.dtype(np.float32))]
    check = FiniteCheck(["an observation", "a count", "a reward"], fields, 4)
    arrays = [np.full((4, *shape), 3e38, dtype) for shape, dtype in fields if dtype != np.int64]
    arrays.insert(1, np.zeros(4, np.int64))
    assert check.offenders(arrays) == {}  # huge, but numbers
    arrays[0][2, 1] = bad
    arrays[2][3] = bad
    found = check.offenders(arrays)
    assert sorted(found) == [2, 3]
    assert found[2].startswith("an observation that is not finite: [")
    assert found[3] == f"a reward that is not finite: {bad}"


def test_names_of_observations() -> None:
    assert observation_names(BOX) == ["an observation"]
    assert "an observation 'parts.1'" in observation_names(NESTED)
