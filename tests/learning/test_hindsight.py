"""Hindsight solves what plain DDPG cannot: a reward so rare that it is never seen by chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.learning import Case, outcomes

CONFIG = "classic_control/ddpg_her_point_goal.gin"
PLAIN = ("TrainerConfig.data_transformer_ctor=None",)

CASES = [
    Case("DDPG with hindsight PointGoal", CONFIG, 20_500, at_least=-13),
    Case("DDPG without hindsight PointGoal", CONFIG, 20_500, at_most=-27, bindings=PLAIN),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_final_policy(case: Case, tmp_path: Path) -> None:
    for outcome in outcomes(case, tmp_path):
        assert case.at_least <= outcome.mean_return <= case.at_most, f"seed {outcome.seed}"
        assert outcome.env_steps <= case.most_env_steps
