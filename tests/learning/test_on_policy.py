"""On-policy algorithms reach the field's marks with every seed, judged by the final policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.learning import Case, outcomes

MASKED = ("create_environment.wrappers=[@MaskVelocity]",)

CASES = [
    Case("PPO CartPole-v1", "ppo.gin", 100_000, at_least=475),
    Case("A2C CartPole-v1", "a2c.gin", 300_000, at_least=475),
    Case("PPO Pendulum-v1", "classic_control/ppo_pendulum.gin", 300_000, at_least=-250),
    Case("PPO LSTM masked CartPole-v1", "classic_control/ppo_lstm_masked_cartpole.gin", 300_000, at_least=400),
    Case("PPO LSTM masked Pendulum-v1", "classic_control/ppo_lstm_masked_pendulum.gin", 600_000, at_least=-250),
    Case("PPO without memory masked CartPole-v1", "ppo.gin", 100_000, at_most=200, bindings=MASKED),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_final_policy(case: Case, tmp_path: Path) -> None:
    for outcome in outcomes(case, tmp_path):
        assert case.at_least <= outcome.mean_return <= case.at_most, f"seed {outcome.seed}"
        assert outcome.env_steps <= case.most_env_steps
