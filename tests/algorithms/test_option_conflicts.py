from __future__ import annotations

import pytest

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems


def problems(**options) -> list[str]:
    """What is wrong with these options."""
    with pytest.raises(ConfigProblems) as caught:
        TrainerConfig(**{"algorithm_ctor": object, **options})
    return [str(problem) for problem in caught.value.problems]


def stop(result) -> bool:
    return False


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
        ({"offline_buffer_length": 9}, "is about recorded data, and there are none"),
        ({"rl_train_after_update_steps": 9}, "is about recorded data, and there are none"),
        ({"rl_train_every_update_steps": 9}, "is about recorded data, and there are none"),
        ({"offline_buffer_dir": "data", "use_rollout_state": True}, "no recurrent states to start from"),
        (
            {
                "offline_buffer_dir": "data",
                "rl_train_after_update_steps": 9,
                "num_updates_per_env_step": 0.5,
                "whole_replay_buffer_training": False,
            },
            "nobody acts before the hand-over",
        ),
        (
            {"offline_buffer_dir": "data", "rl_train_after_update_steps": 9, "async_unroll": True},
            "workers act from the start",
        ),
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
        {"offline_buffer_dir": ["one", "two"], "offline_buffer_length": 9, "rl_train_every_update_steps": 2},
        {"offline_buffer_dir": "data", "async_unroll": True},
        {"whole_replay_buffer_training": False, "mini_batch_length": 2},
    ],
)
def test_options_that_go_together_are_accepted(options):
    config = TrainerConfig(algorithm_ctor=object, **options)
    assert {name: getattr(config, name) for name in options} == options


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
