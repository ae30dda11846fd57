"""What does not go together among the options of a run, and what would be idle."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from alfish.algorithms.supervised.options import IDLE, supervised_conflicts
from alfish.config.problems import Problem

if TYPE_CHECKING:
    from alfish.algorithms.trainer_config import TrainerConfig

_ABOUT_EVALUATION = [
    "eval_interval",
    "num_evals",
    "num_eval_episodes",
    "num_eval_environments",
    "async_eval",
    "eval_timeout",
    "score_fn",
    "keep_best",
]
_ABOUT_PRIORITIES = [
    "priority_replay_alpha",
    "priority_replay_beta",
    "priority_replay_eps",
    "normalize_importance_weights_by_max",
]
_ABOUT_WORKERS = [
    "max_unroll_length",
    "unroll_queue_size",
    "unroll_step_interval",
    "unroll_parameter_update_period",
    "num_unroll_workers",
    "unroll_timeout",
]


def idle_options(config: TrainerConfig) -> dict[str, list[str]]:
    """Options that were set and have no effect, by the reason."""
    groups = {
        "ml_type is 'sl'": IDLE if config.ml_type == "sl" else [],
        "evaluate is False": [] if config.evaluate else _ABOUT_EVALUATION,
        "priority_replay is False": [] if config.priority_replay else _ABOUT_PRIORITIES,
        "async_unroll is False": [] if config.async_unroll else _ABOUT_WORKERS,
        "device is 'cpu'": ["empty_cache"] if config.device.partition(":")[0] == "cpu" else [],
        "async_eval is False": ["eval_timeout"] if config.evaluate and not config.async_eval else [],
    }
    given = config.non_default()
    idle = {reason: [name for name in names if name in given] for reason, names in groups.items()}
    return {reason: names for reason, names in idle.items() if names}


def conflicts(config: TrainerConfig) -> list[Problem]:
    """What is wrong between options; every problem names the options it is about."""
    found: list[Problem] = []

    def problem(options: str, message: str) -> None:
        found.append(Problem(tuple(f"TrainerConfig.{name}" for name in options.split()), message))

    if config.ml_type == "sl":
        for options, message in supervised_conflicts(config):
            problem(options, message)
        return found
    if config.eval_uncertainty:
        problem("eval_uncertainty ml_type", "only ml_type = 'sl' has eval_uncertainty; remove it, or set ml_type")
    if config.algorithm_ctor is None:
        problem("algorithm_ctor", "is not set. Add a line such as\n    TrainerConfig.algorithm_ctor = @PPOAlgorithm")
    if config.num_epochs is None:
        if config.num_iterations == 0 and config.num_env_steps == 0:
            problem(
                "num_iterations num_env_steps",
                "are both 0, so there is no budget. Set one, or num_epochs and num_steps_per_epoch",
            )
        if config.num_steps_per_epoch is not None:
            problem("num_steps_per_epoch", "is set without num_epochs; set both, or neither")
    else:
        if config.num_steps_per_epoch is None:
            problem("num_epochs", "is set without num_steps_per_epoch; set both, or neither")
        if config.num_env_steps or config.num_iterations not in (0, type(config).num_iterations):
            problem(
                "num_epochs num_iterations num_env_steps",
                "are two budgets; keep num_epochs, or num_iterations and num_env_steps",
            )
    if config.num_eval_episodes == 0:
        problem("num_eval_episodes", "is 0; use evaluate = False for no evaluation, -1 for one per environment")
    if config.num_epochs is not None and (config.num_evals or config.eval_interval != type(config).eval_interval):
        problem("num_epochs num_evals eval_interval", "epochs end with an evaluation; leave the others out")
    if config.evaluate_upon_training_success and not (config.evaluate and config.stop_condition):
        problem(
            "evaluate_upon_training_success evaluate stop_condition",
            "evaluating upon training success needs evaluate = True and a stop_condition, "
            "for example @ReturnAtLeast() with ReturnAtLeast.value = 475",
        )
    elif config.stop_condition is not None and not config.evaluate:
        problem("stop_condition evaluate", "a stop_condition looks at evaluations: it needs evaluate = True")
    if config.unroll_episodes is not None and config.unroll_length != type(config).unroll_length:
        problem("unroll_episodes unroll_length", "are two ways to unroll; keep one")
    if config.unroll_episodes is not None and config.num_epochs is not None:
        problem("unroll_episodes num_epochs", "epochs are made of steps; use unroll_length")
    if config.compile == "on" and config.enable_amp:
        problem("compile enable_amp", "a compiled update is in full precision; keep one of the two")
    if config.compile == "on" and config.unroll_with_grad:
        problem("compile unroll_with_grad", "the graph of an unroll is not compiled; set unroll_with_grad = False")
    for options, message in (*_async_conflicts(config), *_offline_conflicts(config)):
        problem(options, message)
    if config.num_updates_per_env_step is not None:
        if config.num_updates_per_train_iter != type(config).num_updates_per_train_iter:
            problem("num_updates_per_env_step num_updates_per_train_iter", "say the same thing twice; keep one")
        if config.whole_replay_buffer_training:
            problem(
                "num_updates_per_env_step whole_replay_buffer_training",
                "a number of updates needs sampling: set whole_replay_buffer_training = False",
            )
    if config.priority_replay and config.whole_replay_buffer_training:
        problem(
            "priority_replay whole_replay_buffer_training",
            "priorities matter for sampling: set whole_replay_buffer_training = False",
        )
    if config.random_initial_collect and not config.initial_collect_steps:
        problem("random_initial_collect initial_collect_steps", "random actions for how long? Set both")
    if not config.whole_replay_buffer_training and config.mini_batch_size == "whole":
        problem(
            "mini_batch_size whole_replay_buffer_training",
            "'whole' needs whole_replay_buffer_training = True",
        )
    if not config.whole_replay_buffer_training and config.mini_batch_length == 1:
        problem(
            "mini_batch_length whole_replay_buffer_training",
            "sampled sequences count time steps: one transition is mini_batch_length = 2",
        )
    return found


def _offline_conflicts(config: TrainerConfig) -> Iterator[tuple[str, str]]:
    """Options, and what is wrong between them, as far as recorded data go."""
    about = ("offline_buffer_length", "rl_train_after_update_steps", "rl_train_every_update_steps")
    if not config.offline_buffer_dir:
        for name in about:
            if getattr(config, name) != getattr(type(config), name):
                yield (
                    f"{name} offline_buffer_dir",
                    f"{name} is about recorded data, and there are none: set offline_buffer_dir",
                )
        return
    if config.use_rollout_state:
        yield (
            "offline_buffer_dir use_rollout_state",
            "recorded data have no recurrent states to start from: set use_rollout_state = False",
        )
    if config.rl_train_after_update_steps == 0:
        return
    if config.num_updates_per_env_step is not None:
        yield (
            "rl_train_after_update_steps num_updates_per_env_step",
            "nobody acts before the hand-over, so there would be no updates either: use num_updates_per_train_iter",
        )
    if config.async_unroll:
        yield (
            "rl_train_after_update_steps async_unroll",
            "workers act from the start; learn offline in one run, and go on from it with --init_from in another",
        )


def _async_conflicts(config: TrainerConfig) -> Iterator[tuple[str, str]]:
    """Options, and what is wrong between them, as far as asynchronous unroll goes."""
    if not config.async_unroll:
        if config.unroll_length == 0:
            yield "unroll_length async_unroll", "0, as much as is there, needs async_unroll = True"
        return
    if config.unroll_episodes is not None:
        yield "async_unroll unroll_episodes", "workers unroll steps, not episodes; use unroll_length"
    if config.unroll_with_grad:
        yield "async_unroll unroll_with_grad", "a graph cannot leave its process; set unroll_with_grad = False"
    if config.unroll_length == 0 and config.max_unroll_length == 0:
        yield "unroll_length max_unroll_length", "are both 0, so nothing would be unrolled; set one of them"
    if config.unroll_length > 0 and config.max_unroll_length > 0:
        yield (
            "unroll_length max_unroll_length",
            "say different things: take exactly unroll_length, or with unroll_length = 0 up to max_unroll_length",
        )
    if config.unroll_length == 0 and config.num_epochs is not None:
        yield "unroll_length num_epochs", "epochs have a fixed number of steps; set unroll_length above 0"
    needed = max(ceil(config.unroll_length), config.max_unroll_length)
    if needed > config.unroll_queue_size:
        yield (
            "unroll_queue_size unroll_length max_unroll_length",
            f"the queue never holds the {needed} steps of an iteration; set unroll_queue_size = {needed} or more",
        )
