from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from alfish.environments.loading import load_gymnasium
from alfish.environments.quick_spaces import QuickDiscrete, QuickMultiDiscrete, quick
from alfish.environments.vector import make_native

Discrete, MultiDiscrete = gym.spaces.Discrete, gym.spaces.MultiDiscrete
LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@pytest.mark.parametrize(("count", "start"), [(1, 0), (2, 0), (5, -2), (3, 7)])
def test_a_quick_discrete_gives_all_answers_of_the_slow_one(count: int, start: int) -> None:
    slow = Discrete(count, start=start)
    fast = quick(slow)
    assert type(fast) is QuickDiscrete
    numbers = [*range(start - 2, start + count + 2), LOWEST, HIGHEST]
    candidates: list[Any] = [
        *numbers,
        *(np.int64(number) for number in numbers),
        *(np.array(number) for number in numbers),
        *(np.int32(number) for number in numbers[:-2]),
        *(float(start), np.float32(start), np.array([start]), True, None, "a"),
    ]
    for candidate in candidates:
        assert fast.contains(candidate) == slow.contains(candidate), candidate
        assert (candidate in fast) == (candidate in slow)
    assert fast == slow
    assert str(fast) == str(slow)


def test_a_quick_multi_discrete_gives_all_answers_of_the_slow_one() -> None:
    slow = MultiDiscrete([2, 3])
    fast = quick(slow)
    assert type(fast) is QuickMultiDiscrete
    numbers = [*range(-3, 9), LOWEST, HIGHEST]
    candidates: list[Any] = [np.array([a, b]) for a in numbers for b in numbers]
    candidates += [[0, 1], np.array([0, 1], np.int8), np.zeros(2), np.zeros(3, np.int64), np.int64(0), None]
    for candidate in candidates:
        assert fast.contains(candidate) == slow.contains(candidate), candidate
    assert fast == slow


def test_it_keeps_its_random_numbers() -> None:
    one, other = quick(Discrete(100, seed=3)), Discrete(100, seed=3)
    assert [one.sample() for _ in range(5)] == [other.sample() for _ in range(5)]


@pytest.mark.parametrize(
    "space",
    [
        Discrete(2, dtype=np.int32),
        MultiDiscrete([2, 3], start=[-1, 5]),
        gym.spaces.Box(0, 1),
        gym.spaces.MultiBinary(2),
    ],
)
def test_other_spaces_stay_what_they_are(space: gym.Space[Any]) -> None:
    assert quick(space) is space


def test_environments_that_alfish_makes_are_quick() -> None:
    assert type(load_gymnasium("CartPole-v1").action_space) is QuickDiscrete
    assert type(make_native("CartPole-v1", 2, {}).action_space) is QuickMultiDiscrete
