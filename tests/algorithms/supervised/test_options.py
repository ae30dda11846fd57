"""What `ml_type = 'sl'` refuses, and what it warns of, is decided for every option that there is."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from alfish.algorithms.supervised.options import _REFUSED, IDLE
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems

REFUSED = {name for names in _REFUSED.values() for name in names}
# As in reinforcement learning.
WORKING = {
    "root_dir", "conf_file", "ml_type", "algorithm_ctor", "random_seed", "device", "num_threads", "enable_amp",
    "empty_cache", "num_iterations", "mini_batch_size", "nan_policy", "evaluate", "eval_interval", "num_evals",
    "eval_uncertainty", "stop_condition", "score_fn", "num_checkpoints", "keep_best", "confirm_checkpoint_upon_crash",
    "profiling", "code_snapshots", "summary_interval", "num_summaries", "summarize_first_interval",
    "update_counter_every_mini_batch", "summaries_flush_secs", "summary_max_queue", "debug_summaries",
    "summarize_grads_and_vars", "summarize_gradient_noise_scale", "summarize_output", "loggers", "hooks",
    "grace_period", "show_progress", "verbose", "ddp_paras_check_interval",
}  # fmt: skip
# Idle in every run that does not ask for what they are about, and so here.
ABOUT_WHAT_IS_REFUSED = {
    "num_unroll_workers", "max_unroll_length", "unroll_queue_size", "unroll_step_interval",
    "unroll_parameter_update_period", "unroll_timeout", "priority_replay_alpha", "priority_replay_beta",
    "priority_replay_eps", "normalize_importance_weights_by_max",
}  # fmt: skip
ALWAYS_SO = {"async_eval"}  # evaluation is a matter of milliseconds here; False is what happens


def problems(**options: Any) -> str:
    with pytest.raises(ConfigProblems) as caught:
        TrainerConfig(ml_type="sl", **{"algorithm_ctor": dict, **options})
    return str(caught.value)


def another(name: str) -> Any:
    """A value that the option may have and has not by itself."""
    default = {field.name: field.default for field in fields(TrainerConfig)}[name]
    special = {
        "algorithm_ctor": dict,
        "compile": "on",
        "data_transformer_ctor": dict,
        "offline_buffer_dir": "data",
        "reward_reduction": "sum",
        "epsilon_greedy": 0.5,
        "rl_train_every_update_steps": 2,
        "temporally_independent_train_step": True,
    }
    if name in special:
        return special[name]
    return not default if isinstance(default, bool) else (default or 0) + 3


def test_every_option_has_its_place():
    names = {field.name for field in fields(TrainerConfig)}
    assert REFUSED | set(IDLE) | WORKING | ABOUT_WHAT_IS_REFUSED | ALWAYS_SO == names
    assert len(REFUSED) + len(IDLE) + len(WORKING) + len(ABOUT_WHAT_IS_REFUSED) + len(ALWAYS_SO) == len(names)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_options_about_environments_are_refused_by_name(name):
    told = problems(**{name: another(name)})
    assert f"TrainerConfig.{name}" in told
    assert "with ml_type = 'sl'" in told
    assert "Remove it" in told


@pytest.mark.parametrize("name", [*sorted(IDLE), *sorted(ABOUT_WHAT_IS_REFUSED)])
def test_options_that_change_nothing_are_idle(name):
    config = TrainerConfig(ml_type="sl", algorithm_ctor=dict, evaluate=True, **{name: another(name)})
    assert name in {each for names in config.idle_options().values() for each in names}


def test_all_problems_are_in_one_report():
    told = problems(num_iterations=0, unroll_length=3, num_env_steps=100, eval_uncertainty=True)
    for name in ("num_iterations", "unroll_length", "num_env_steps", "eval_uncertainty"):
        assert f"TrainerConfig.{name}" in told


def test_a_stop_condition_and_uncertainty_need_evaluations():
    assert "it needs evaluate = True" in problems(stop_condition=lambda result: True)
    assert "set evaluate = True" in problems(eval_uncertainty=True)


def test_the_missing_algorithm_is_shown_with_a_line_to_add():
    assert "algorithm_ctor = @EnsembleClassificationAlgorithm" in problems(algorithm_ctor=None)
