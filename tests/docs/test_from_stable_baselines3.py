"""docs/from_stable_baselines3.md lists every argument, names only what alfish has, and its ported config trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from alfish.algorithms.ppo import PPOAlgorithm
from tests.docs.markdown import ROOT
from tests.docs.porting import rows, train_block, unknown_names, words

PAGE = ROOT / "docs" / "from_stable_baselines3.md"

# Arguments of the constructors in 2.9.2, but for `_init_setup_model`, which is private.
COMMON = """
policy env learning_rate gamma stats_window_size tensorboard_log policy_kwargs verbose seed device
use_sde sde_sample_freq use_sde_at_warmup
"""
PPO = """
n_steps batch_size n_epochs gae_lambda clip_range clip_range_vf normalize_advantage ent_coef vf_coef max_grad_norm
rollout_buffer_class rollout_buffer_kwargs target_kl
"""
SAC_AND_DQN = """
buffer_size learning_starts batch_size tau train_freq gradient_steps action_noise replay_buffer_class
replay_buffer_kwargs optimize_memory_usage n_steps ent_coef target_update_interval target_entropy
exploration_fraction exploration_initial_eps exploration_final_eps max_grad_norm
"""


@pytest.mark.parametrize(
    ("section", "arguments"),
    [("Arguments of every algorithm", COMMON), ("PPO", PPO), ("SAC and DQN", SAC_AND_DQN)],
)
def test_every_argument_is_listed_once(section: str, arguments: str) -> None:
    listed = [name for row in rows(PAGE) if row.section == section for name in words(row.cells[0])]
    assert sorted(listed) == sorted(arguments.split())


def test_every_name_on_the_right_exists() -> None:
    assert unknown_names(row.cells[1] for row in rows(PAGE)) == []


def test_the_ported_config_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trainer, result = train_block(
        PAGE, "ppo_cartpole.gin", "TrainerConfig.num_iterations=2", "TrainerConfig.num_env_steps=0"
    )
    assert isinstance(trainer.algorithm, PPOAlgorithm)
    assert result.iterations == 2
    assert result.updates == 2 * 20
