"""Off-policy actor-critics reach the field's marks with every seed, judged by the final policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.learning.learning import Case, outcomes

UNIFORM = [
    Case("SAC Pendulum-v1", "sac.gin", 15_000, at_least=-180),
    Case("TD3 Pendulum-v1", "td3.gin", 15_000, at_least=-180),
    Case("DDPG Pendulum-v1", "ddpg.gin", 20_000, at_least=-250),
    Case("SAC CartPole-v1", "classic_control/sac_cartpole.gin", 40_000, at_least=400),
]
PRIORITIZED = [
    replace(case, name=f"{case.name}, prioritized", bindings=("TrainerConfig.priority_replay=True",))
    for case in UNIFORM
]
MEMORY = [
    Case("SAC GRU masked Pendulum-v1", "classic_control/sac_gru_masked_pendulum.gin", 30_000, at_least=-250),
]


@pytest.mark.parametrize("case", [*UNIFORM, *PRIORITIZED, *MEMORY], ids=lambda case: case.name)
def test_final_policy(case: Case, tmp_path: Path) -> None:
    for outcome in outcomes(case, tmp_path):
        assert case.at_least <= outcome.mean_return <= case.at_most, f"seed {outcome.seed}"
        assert outcome.env_steps <= case.most_env_steps
