from __future__ import annotations

import numpy as np
import pytest

from alfish.config.problems import ConfigProblems
from alfish.summary.reward_reduction import RewardReduction

RETURNS = np.array([[1.0, 3.0, 5.0], [0.0, 10.0, -1.0]])


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (None, [9.0, 9.0]),
        ("sum", [9.0, 9.0]),
        ("mean", [3.0, 3.0]),
        ("min", [1.0, -1.0]),
        ("max", [5.0, 10.0]),
        ((1, 0, 2.0), [11.0, -2.0]),
        ([0.5, 0.0, 0.0], [0.5, 0.0]),
        (lambda returns: returns[0] - returns[-1], [-4.0, 1.0]),
    ],
)
def test_ways_to_reduce(how, expected):
    assert RewardReduction(how, (3,))(RETURNS).tolist() == expected


def test_scalar_rewards_stay_as_they_are():
    assert RewardReduction("mean")(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert RewardReduction((1.0, 2.0))(np.array([4.0])).tolist() == [4.0]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ((1.0, 2.0), "has 2 weights, but the reward has 3 elements"),
        (lambda returns: returns, "gave tuple for a return of 3 ones"),
        (lambda returns: returns["speed"], "raised TypeError"),
    ],
)
def test_what_cannot_work_is_refused(how, words):
    with pytest.raises(ConfigProblems, match=words) as caught:
        RewardReduction(how, (3,))
    assert "TrainerConfig.reward_reduction" in str(caught.value)
