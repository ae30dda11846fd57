"""DQN reaches the field's mark with every seed, judged by the final policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.learning import Case, outcomes

# Fully corrected: what is drawn often moves the network no further than it would have. And nothing is overwritten: what
# is old and known is hardly drawn, and without any old failures balancing is unlearned.
PRIORITIZED = (
    "TrainerConfig.priority_replay=True",
    "TrainerConfig.priority_replay_beta=1.0",
    "TrainerConfig.replay_buffer_length=15_000",
)

CASES = [
    Case("DQN CartPole-v1", "dqn.gin", 60_000, at_least=475),
    Case("DQN CartPole-v1, prioritized replay", "dqn.gin", 60_000, at_least=475, bindings=PRIORITIZED),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_final_policy(case: Case, tmp_path: Path) -> None:
    for outcome in outcomes(case, tmp_path):
        assert case.at_least <= outcome.mean_return, f"seed {outcome.seed}"
        assert outcome.env_steps <= case.most_env_steps
