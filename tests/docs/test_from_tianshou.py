"""docs/from_tianshou.md lists every option of Tianshou, names only what alfish has, and its ported config trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from alfish.algorithms.dqn import DqnAlgorithm
from tests.docs.markdown import ROOT, file_block
from tests.docs.porting import Row, keys, rows, train_block, unknown_names, words

PAGE = ROOT / "docs" / "from_tianshou.md"
THEIRS, OURS = "dqn_cartpole.py", "dqn_cartpole.gin"

# Fields of SamplingConfig and arguments of the trainers, without the policy.
OLD = """
num_epochs step_per_epoch batch_size num_train_envs num_test_envs num_test_episodes buffer_size step_per_collect
episode_per_collect repeat_per_collect update_per_step start_timesteps start_timesteps_random
replay_buffer_ignore_obs_next replay_buffer_save_only_last_obs replay_buffer_stack_num
max_epoch train_collector test_collector buffer episode_per_test train_fn test_fn stop_fn compute_score_fn save_best_fn
save_fn save_checkpoint_fn resume_from_log reward_metric logger verbose show_progress test_in_train
"""
# Fields of TrainingConfig, TrainerParams and their subclasses in 2.0.1.
NEW = """
max_epochs epoch_num_steps num_training_envs num_test_envs test_step_num_episodes buffer_size
collection_step_num_env_steps collection_step_num_episodes start_timesteps start_timesteps_random
replay_buffer_ignore_obs_next replay_buffer_save_only_last_obs replay_buffer_stack_num test_in_training batch_size
update_step_num_repetitions update_step_num_gradient_steps_per_sample
test_collector training_fn test_fn stop_fn compute_score_fn save_best_fn save_checkpoint_fn resume_from_log
multi_agent_return_reduction logger verbose show_progress training_collector buffer
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def in_tianshou(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """What options are called there, as docs/options.md has it."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    import option_names

    return option_names.IN_TIANSHOU


def option_rows() -> list[Row]:
    section = "Configs and trainers, option by option"
    return [row for row in rows(PAGE) if row.section == section and len(row.cells) == 4]


def test_every_option_of_tianshou_is_listed() -> None:
    for column, wanted in enumerate((OLD, NEW)):
        listed = [name for row in option_rows() for name in words(row.cells[column])]
        assert set(wanted.split()) - set(listed) == set()
        assert len(listed) == len(set(listed))


def test_the_page_says_what_the_page_of_options_says(in_tianshou: Mapping[str, str]) -> None:
    text = PAGE.read_text()
    here = {key.partition(".")[2] for row in option_rows() for key in keys(row.cells[2])}
    assert in_tianshou.keys() <= here
    for option, names in in_tianshou.items():
        assert [name for name in words(names) if f"`{name}`" not in text] == [], option


def test_every_name_of_alfish_exists() -> None:
    here = [row.cells[2] if len(row.cells) == 4 else row.cells[1] for row in rows(PAGE)]
    remarks = [row.cells[3] for row in option_rows()]
    assert unknown_names([*here, *remarks]) == []


def test_every_option_leads_somewhere_or_says_that_it_does_not() -> None:
    for row in option_rows():
        assert len(keys(row.cells[2])) == 1 or row.cells[2] == "-", row


def values(page: Path) -> tuple[dict[str, object], dict[str, object]]:
    """The arguments of the experiment, and the bindings of the .gin that are plain values."""
    calls = [node for node in ast.walk(ast.parse(file_block(page, THEIRS))) if isinstance(node, ast.Call)]
    theirs = {
        keyword.arg: keyword.value.value
        for call in calls
        for keyword in call.keywords
        if keyword.arg is not None and isinstance(keyword.value, ast.Constant)
    }
    lines = re.findall(r"^(\w+\.\w+) = ([^@#\n]+)", file_block(page, OURS), re.MULTILINE)
    return theirs, {key: ast.literal_eval(value.strip()) for key, value in lines}


def test_both_forms_say_the_same() -> None:
    theirs, ours = values(PAGE)
    environments = ours["create_environment.num_parallel_environments"]
    assert isinstance(environments, int)
    for key in ("TrainerConfig.unroll_length", "TrainerConfig.replay_buffer_length"):  # per environment
        value = ours[key]
        assert isinstance(value, int)
        ours[key] = value * environments
    here = {name: key for row in option_rows() for name in words(row.cells[1]) for key in keys(row.cells[2])}
    parameters = [row for row in rows(PAGE) if row.section == "Parameters of algorithms"]
    here |= {
        name: key for row in parameters for name in words(row.cells[0]) for key in keys(row.cells[1]) if key in ours
    }
    here["target_update_freq"] = "DqnAlgorithm.target_update_period"
    here["task"] = "create_environment.env_name"
    compared = {name for name in theirs if here.get(name) in ours}
    assert compared == theirs.keys() - {"watch"}
    assert {name: ours[here[name]] for name in compared} == {name: theirs[name] for name in compared}


def test_the_ported_config_trains() -> None:
    short = ("num_epochs=2", "num_steps_per_epoch=800", "initial_collect_steps=400", "num_eval_episodes=-1")
    trainer, result = train_block(PAGE, OURS, *(f"TrainerConfig.{option}" for option in short))
    assert isinstance(trainer.algorithm, DqnAlgorithm)
    assert result.iterations == 2 * 50
    assert result.evaluation is not None
    assert len(result.evaluation.returns) == 10
    # The warm-up, which is part of the first epoch, ends with the iteration that reaches 400 steps.
    assert 0.25 * (result.env_steps - 400 - 16) <= result.updates <= 0.25 * (result.env_steps - 400) + 4
