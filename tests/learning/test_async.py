"""Acting in another process costs no learning: the same marks as in one process, with every seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.learning import Case, outcomes

ASYNC = ("TrainerConfig.async_unroll=True", "TrainerConfig.unroll_queue_size=4")
CASES = [
    Case("SAC Pendulum-v1, asynchronous", "classic_control/sac_pendulum_async.gin", 15_000, at_least=-180),
    Case(
        "SAC CartPole-v1, asynchronous",
        "classic_control/sac_cartpole.gin",
        40_000,
        at_least=400,
        bindings=(*ASYNC, "TrainerConfig.unroll_parameter_update_period=1"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_final_policy(case: Case, tmp_path: Path) -> None:
    for outcome in outcomes(case, tmp_path):
        assert case.at_least <= outcome.mean_return <= case.at_most, f"seed {outcome.seed}"
        assert outcome.env_steps <= case.most_env_steps
