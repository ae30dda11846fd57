"""What the options of a run mean, and do not mean, when it learns from examples: `TrainerConfig.ml_type = 'sl'`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alfish.algorithms.trainer_config import TrainerConfig

# Whoever sets one of these expects other results, so setting one is an error.
_ABOUT_THE_BUDGET = ("num_env_steps", "num_epochs", "num_steps_per_epoch")
_ABOUT_EPOCHS = ("num_updates_per_train_iter", "num_updates_per_env_step", "mini_batch_length")
_ABOUT_INTERACTION = (
    "data_transformer_ctor",
    "unroll_length",
    "unroll_episodes",
    "unroll_with_grad",
    "async_unroll",
    "use_rollout_state",
    "temporally_independent_train_step",
    "initial_collect_steps",
    "random_initial_collect",
    "whole_replay_buffer_training",
    "clear_replay_buffer",
    "replay_buffer_length",
    "priority_replay",
    "offline_buffer_dir",
    "offline_buffer_length",
    "rl_train_after_update_steps",
    "rl_train_every_update_steps",
    "epsilon_greedy",
    "evaluate_upon_training_success",
    "reward_reduction",
)
_REFUSED = {
    "the budget is num_iterations, in epochs. Remove it": _ABOUT_THE_BUDGET,
    "every epoch goes over all examples once, in mini batches of mini_batch_size. Remove it": _ABOUT_EPOCHS,
    "there are no environments, only examples. Remove it": _ABOUT_INTERACTION,
}

# These change nothing; a warning says so.
IDLE = [
    "compile",
    "num_eval_episodes",
    "num_eval_environments",
    "eval_timeout",
    "metric_min_buffer_size",
    "no_thread_env_for_conf",
    "summarize_action_distributions",
]


def supervised_conflicts(config: TrainerConfig) -> Iterator[tuple[str, str]]:
    """Options, and what is wrong between them, when examples are learned from."""
    given = config.non_default()
    if config.algorithm_ctor is None:
        line = "TrainerConfig.algorithm_ctor = @EnsembleClassificationAlgorithm"
        yield "algorithm_ctor", f"is not set. Add a line such as\n    {line}"
    if config.num_iterations == 0:
        yield "num_iterations ml_type", "with ml_type = 'sl' num_iterations is the number of epochs; set it above 0"
    for reason, names in _REFUSED.items():
        for name in names:
            if name in given:
                yield f"{name} ml_type", f"with ml_type = 'sl' {reason}"
    if config.stop_condition is not None and not config.evaluate:
        yield "stop_condition evaluate", "a stop_condition looks at evaluations: it needs evaluate = True"
    if config.eval_uncertainty and not config.evaluate:
        yield "eval_uncertainty evaluate", "uncertainty is measured when there is an evaluation: set evaluate = True"
