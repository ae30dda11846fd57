from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from alfish import config
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.command import run
from alfish.config.problems import ConfigProblems


def problems(**options) -> list[str]:
    """What is wrong with these options."""
    with pytest.raises(ConfigProblems) as caught:
        TrainerConfig(**{"algorithm_ctor": object, **options})
    return [str(problem) for problem in caught.value.problems]


def stop(result) -> bool:
    return False


def test_the_options_cannot_be_changed_afterwards():
    options = TrainerConfig(algorithm_ctor=object)
    with pytest.raises(FrozenInstanceError):
        options.num_iterations = 3
    with pytest.raises(TypeError):
        TrainerConfig("run", object)


def test_what_was_set_is_known():
    assert TrainerConfig(algorithm_ctor=object, num_iterations=5).non_default() == {"algorithm_ctor", "num_iterations"}
    assert TrainerConfig(algorithm_ctor=object, num_iterations=1000).non_default() == {"algorithm_ctor"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"algorithm_ctor": None},
            "algorithm_ctor: is not set. Add a line such as\n    TrainerConfig.algorithm_ctor = @PPOAlgorithm",
        ),
        ({"num_iterations": 0}, "are both 0, so there is no budget"),
        ({"num_steps_per_epoch": 10}, "num_steps_per_epoch: is set without num_epochs"),
        ({"num_epochs": 2}, "num_epochs: is set without num_steps_per_epoch"),
        ({"num_epochs": 2, "num_steps_per_epoch": 5, "num_env_steps": 9}, "are two budgets"),
        ({"num_epochs": 2, "num_steps_per_epoch": 5, "num_iterations": 9}, "are two budgets"),
        ({"num_eval_episodes": 0}, "is 0; use evaluate = False for no evaluation"),
        (
            {"num_epochs": 2, "num_steps_per_epoch": 5, "evaluate": True, "num_evals": 3},
            "epochs end with an evaluation",
        ),
        (
            {"num_epochs": 2, "num_steps_per_epoch": 5, "evaluate": True, "eval_interval": 3},
            "epochs end with an evaluation",
        ),
        ({"stop_condition": stop}, "it needs evaluate = True"),
        ({"evaluate_upon_training_success": True}, "needs evaluate = True and a stop_condition"),
        ({"evaluate": True, "evaluate_upon_training_success": True}, "needs evaluate = True and a stop_condition"),
        (
            {"evaluate_upon_training_success": True, "stop_condition": stop},
            "needs evaluate = True and a stop_condition",
        ),
        ({"unroll_episodes": 3, "unroll_length": 5}, "are two ways to unroll; keep one"),
        ({"unroll_episodes": 3, "num_epochs": 2, "num_steps_per_epoch": 5}, "epochs are made of steps"),
        ({"unroll_length": 0}, "needs async_unroll = True"),
        ({"async_unroll": True, "unroll_length": 0}, "are both 0, so nothing would be unrolled"),
        ({"async_unroll": True, "unroll_length": 4, "max_unroll_length": 8}, "say different things"),
        ({"async_unroll": True, "unroll_length": 10, "unroll_queue_size": 9}, "set unroll_queue_size = 10 or more"),
        ({"async_unroll": True, "unroll_length": 2.5, "unroll_queue_size": 2}, "set unroll_queue_size = 3 or more"),
        (
            {"async_unroll": True, "unroll_length": 0, "max_unroll_length": 300},
            "the queue never holds the 300 steps of an iteration",
        ),
        ({"async_unroll": True, "unroll_episodes": 3}, "workers unroll steps, not episodes"),
        ({"async_unroll": True, "unroll_with_grad": True}, "a graph cannot leave its process"),
        (
            {
                "async_unroll": True,
                "unroll_length": 0,
                "max_unroll_length": 8,
                "num_epochs": 2,
                "num_steps_per_epoch": 5,
            },
            "epochs have a fixed number of steps",
        ),
        ({"num_updates_per_env_step": 0.5}, "set whole_replay_buffer_training = False"),
        (
            {
                "num_updates_per_env_step": 0.5,
                "num_updates_per_train_iter": 3,
                "whole_replay_buffer_training": False,
            },
            "say the same thing twice",
        ),
        ({"priority_replay": True}, "set whole_replay_buffer_training = False"),
        ({"random_initial_collect": True}, "random actions for how long"),
        ({"whole_replay_buffer_training": False, "mini_batch_size": "whole"}, "needs whole_replay_buffer_training"),
        ({"whole_replay_buffer_training": False, "mini_batch_length": 1}, "one transition is mini_batch_length = 2"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    (problem,) = problems(**options)
    assert problem.startswith("TrainerConfig.")
    assert message in problem


@pytest.mark.parametrize(
    "options",
    [
        {"num_iterations": 0, "num_env_steps": 5},
        {"num_iterations": 7, "num_env_steps": 5},
        {"num_epochs": 0, "num_steps_per_epoch": 5},
        {"evaluate": True, "num_evals": 3},
        {"evaluate": True, "evaluate_upon_training_success": True, "stop_condition": stop},
        {"num_eval_episodes": -1},
        {"mini_batch_size": "whole"},
        {"whole_replay_buffer_training": False, "mini_batch_length": 2},
    ],
)
def test_options_that_go_together_are_accepted(options):
    config = TrainerConfig(algorithm_ctor=object, **options)
    assert {name: getattr(config, name) for name in options} == options


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_iterations", -1),
        ("num_iterations", "ten"),
        ("num_iterations", 1.5),
        ("unroll_length", 0),
        ("mini_batch_size", 0),
        ("mini_batch_size", "half"),
        ("num_threads", 0),
        ("epsilon_greedy", 1.1),
        ("num_eval_episodes", -2),
        ("nan_policy", "ignore"),
        ("evaluate", 3),
        ("summary_interval", 0),
        ("random_seed", -1),
    ],
)
def test_values_out_of_range_or_of_another_type_are_refused(option, value):
    (problem,) = problems(**{option: value})
    assert problem.startswith(f"TrainerConfig.{option}")


def test_everything_that_is_wrong_is_reported_together():
    found = problems(algorithm_ctor=None, num_iterations=0, num_eval_episodes=0)
    assert len(found) == 3
    assert [found[0].split(":")[0], found[1].split(":")[0]] == [
        "TrainerConfig.algorithm_ctor",
        "TrainerConfig.num_iterations and TrainerConfig.num_env_steps",
    ]


def test_options_without_effect_are_known_by_their_reason():
    idle = TrainerConfig(
        algorithm_ctor=dict, num_evals=3, priority_replay_beta=0.5, num_unroll_workers=2
    ).idle_options()
    assert idle == {
        "evaluate is False": ["num_evals"],
        "priority_replay is False": ["priority_replay_beta"],
        "async_unroll is False": ["num_unroll_workers"],
    }
    assert TrainerConfig(algorithm_ctor=dict, evaluate=True, num_evals=3).idle_options() == {}
    with_timeout = TrainerConfig(algorithm_ctor=dict, evaluate=True, async_eval=False, eval_timeout=5.0)
    assert with_timeout.idle_options() == {"async_eval is False": ["eval_timeout"]}


CONFLICTING = """
TrainerConfig.algorithm_ctor = @PPOAlgorithm
TrainerConfig.stop_condition = @Plateau()
TrainerConfig.num_iterations = 0
"""


def test_conflicts_in_a_config_are_told_with_file_and_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.gin").write_text(CONFLICTING)

    def main(argv) -> int:
        config.load(["mine.gin"], argv)
        TrainerConfig()
        return 0

    assert run(main, ["TrainerConfig.num_eval_episodes=0"]) == 2
    err = capsys.readouterr().err
    assert "error: 3 problems in the configuration" in err
    assert "TrainerConfig.num_iterations (mine.gin:4) and TrainerConfig.num_env_steps (default): are both 0" in err
    assert "TrainerConfig.stop_condition (mine.gin:3) and TrainerConfig.evaluate (default): a stop_condition" in err
    assert "command line: TrainerConfig.num_eval_episodes: is 0" in err
    assert "Traceback" not in err
    assert run(main, ["TrainerConfig.num_iterations=1e6", "TrainerConfig.evaluate=True"]) == 0
