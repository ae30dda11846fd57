"""What the code cannot tell about options: what they are for, and what they are called elsewhere.

`APPLIES` says which runs an option means something to. What is idle, and what is refused, the page takes from the code.
"""

from __future__ import annotations

from types import MappingProxyType

_ALL = "every run"
_ON = "on-policy"
_OFF = "off-policy"
_WORKERS = "off-policy, with workers"
_PRIORITIES = "off-policy, algorithms that give priorities"
_EVALUATED = "runs that evaluate"
_RECORDED = "off-policy, with recorded data"
_SUPERVISED = "`ml_type = 'sl'`"

APPLIES = MappingProxyType(
    {
        # Run
        "root_dir": _ALL,
        "conf_file": _ALL,
        "ml_type": _ALL,
        "algorithm_ctor": _ALL,
        "data_transformer_ctor": "every algorithm; those that read replay only off-policy",
        "random_seed": _ALL,
        "device": _ALL,
        "num_threads": _ALL,
        "enable_amp": _ALL,
        "empty_cache": "runs on an accelerator",
        "compile": _ALL,
        "num_iterations": _ALL,
        "num_env_steps": "every algorithm; off-policy goes on from replay after it",
        "num_epochs": _ALL,
        "num_steps_per_epoch": "runs with `num_epochs`",
        # Unroll
        "unroll_length": "every algorithm",
        "unroll_episodes": "every algorithm, without workers",
        "unroll_with_grad": "on-policy with one update per unroll (A2C)",
        "async_unroll": "off-policy, and on-policy that tolerates lag",
        "num_unroll_workers": _WORKERS,
        "max_unroll_length": _WORKERS,
        "unroll_queue_size": _WORKERS,
        "unroll_step_interval": _WORKERS,
        "unroll_parameter_update_period": _WORKERS,
        "unroll_timeout": _WORKERS,
        "use_rollout_state": "algorithms with memory, but for A2C, which always does",
        "temporally_independent_train_step": "algorithms that train step by step",
        # Updates
        "initial_collect_steps": _OFF,
        "random_initial_collect": _OFF,
        "num_updates_per_train_iter": "every algorithm but A2C",
        "num_updates_per_env_step": "off-policy, sampling",
        "mini_batch_length": "every algorithm but A2C",
        "mini_batch_size": "every algorithm but A2C",
        "whole_replay_buffer_training": "off-policy; on-policy it is always True",
        "clear_replay_buffer": "off-policy with the whole buffer; on-policy it is always True",
        "replay_buffer_length": _OFF,
        "priority_replay": _PRIORITIES,
        "priority_replay_alpha": _PRIORITIES,
        "priority_replay_beta": _PRIORITIES,
        "priority_replay_eps": _PRIORITIES,
        "normalize_importance_weights_by_max": _PRIORITIES,
        "offline_buffer_dir": _OFF,
        "offline_buffer_length": _RECORDED,
        "rl_train_after_update_steps": _RECORDED,
        "rl_train_every_update_steps": _RECORDED,
        "nan_policy": _ALL,
        # Evaluation
        "evaluate": _ALL,
        "eval_interval": _EVALUATED,
        "num_evals": _EVALUATED,
        "eval_uncertainty": _SUPERVISED,
        "num_eval_episodes": _EVALUATED,
        "num_eval_environments": _EVALUATED,
        "async_eval": _EVALUATED,
        "eval_timeout": "runs that evaluate in another process",
        "epsilon_greedy": "evaluation and play, algorithms that sample actions",
        "evaluate_upon_training_success": "runs with a `stop_condition`",
        "stop_condition": _EVALUATED,
        "score_fn": _EVALUATED,
        "reward_reduction": "environments with a vector reward",
        # Checkpoints
        "num_checkpoints": _ALL,
        "keep_best": _EVALUATED,
        "confirm_checkpoint_upon_crash": _ALL,
        "no_thread_env_for_conf": "accepted, and needed nowhere",
        "ddp_paras_check_interval": "runs in several processes that learn together",
        "profiling": _ALL,
        "code_snapshots": _ALL,
        # Summaries
        "summary_interval": _ALL,
        "num_summaries": _ALL,
        "summarize_first_interval": _ALL,
        "update_counter_every_mini_batch": _ALL,
        "summaries_flush_secs": _ALL,
        "summary_max_queue": _ALL,
        "metric_min_buffer_size": "every algorithm",
        "debug_summaries": _ALL,
        "summarize_grads_and_vars": _ALL,
        "summarize_gradient_noise_scale": _ALL,
        "summarize_action_distributions": "algorithms with a policy that is a distribution",
        "summarize_output": _ALL,
        "loggers": _ALL,
        # The outside
        "hooks": _ALL,
        "grace_period": _ALL,
        "show_progress": _ALL,
        "verbose": _ALL,
        # create_environment
        "env_name": "every environment",
        "env_load_fn": "backends 'sync' and 'process'",
        "num_parallel_environments": "every environment",
        "backend": "every environment",
        "wrappers": "backends 'sync' and 'process'",
        "env_kwargs": "every environment",
        "max_episode_steps": "every environment",
        "render_mode": "every environment",
        "info_keys": "every environment",
        "clip_actions": "continuous actions",
        "env_step_timeout": "backend 'process'",
        "on_env_error": "backends 'sync' and 'process'",
        "max_env_restarts": "`on_env_error = 'restart'`",
        "spare_environments": "backend 'process'",
        # ReplayBuffer
        "enable_checkpoint": _OFF,
    }
)

# Of the options with ALF's name: in its `TrainerConfig`, `create_environment` or `ReplayBuffer`.
IN_ALF = frozenset(
    {
        "root_dir", "conf_file", "ml_type", "algorithm_ctor", "data_transformer_ctor", "random_seed", "num_iterations",
        "num_env_steps", "unroll_length", "unroll_with_grad", "async_unroll", "max_unroll_length", "unroll_queue_size",
        "unroll_step_interval", "unroll_parameter_update_period", "use_rollout_state",
        "temporally_independent_train_step", "evaluate", "num_evals", "eval_interval", "epsilon_greedy",
        "eval_uncertainty", "num_eval_episodes", "num_eval_environments", "async_eval", "num_checkpoints",
        "confirm_checkpoint_upon_crash", "no_thread_env_for_conf", "ddp_paras_check_interval", "profiling",
        "enable_amp", "code_snapshots", "empty_cache", "num_summaries", "summary_interval", "summarize_first_interval",
        "update_counter_every_mini_batch", "summaries_flush_secs", "summary_max_queue", "metric_min_buffer_size",
        "debug_summaries", "summarize_grads_and_vars", "summarize_gradient_noise_scale",
        "summarize_action_distributions", "summarize_output", "initial_collect_steps", "num_updates_per_train_iter",
        "mini_batch_length", "mini_batch_size", "whole_replay_buffer_training", "clear_replay_buffer",
        "replay_buffer_length", "priority_replay", "priority_replay_alpha", "priority_replay_beta",
        "priority_replay_eps", "normalize_importance_weights_by_max", "offline_buffer_dir", "offline_buffer_length",
        "rl_train_after_update_steps", "rl_train_every_update_steps", "env_name", "env_load_fn",
        "num_parallel_environments", "enable_checkpoint",
    }
)  # fmt: skip

# Of Tianshou: the name of 1.x, and of 2.x where it is another; or how to get the same there.
IN_TIANSHOU = MappingProxyType(
    {
        "num_epochs": "`num_epochs`, `max_epochs`",
        "num_steps_per_epoch": "`step_per_epoch`, `epoch_num_steps`",
        "unroll_length": "`step_per_collect`, `collection_step_num_env_steps`, which count all environments",
        "unroll_episodes": "`episode_per_collect`, `collection_step_num_episodes`",
        "num_updates_per_train_iter": "`repeat_per_collect`, `update_step_num_repetitions`, on-policy",
        "num_updates_per_env_step": "`update_per_step`, `update_step_num_gradient_steps_per_sample`",
        "mini_batch_size": "`batch_size`; None there is 'whole' here",
        "replay_buffer_length": "`buffer_size`, which counts all environments",
        "initial_collect_steps": "`start_timesteps`",
        "random_initial_collect": "`start_timesteps_random`",
        "num_eval_episodes": "`num_test_episodes`, `test_step_num_episodes`",
        "num_eval_environments": "`num_test_envs`",
        "num_parallel_environments": "`num_train_envs`, `num_training_envs`",
        "evaluate_upon_training_success": "`test_in_train`, `test_in_training`",
        "stop_condition": "`stop_fn`",
        "score_fn": "`compute_score_fn`",
        "reward_reduction": "`reward_metric`, `multi_agent_return_reduction`",
        "keep_best": "`save_best_fn`",
        "hooks": "`save_checkpoint_fn`, `train_fn`, `training_fn`, `test_fn`",
        "root_dir": "`resume_from_log` is what a folder with checkpoints does",
        "data_transformer_ctor": "`replay_buffer_stack_num`, `replay_buffer_save_only_last_obs`: `@FrameStacker`",
        "priority_replay": "`PrioritizedVectorReplayBuffer`",
        "priority_replay_alpha": "`alpha` of that buffer",
        "priority_replay_beta": "`beta` of that buffer",
        "normalize_importance_weights_by_max": "`weight_norm` of that buffer",
        "offline_buffer_dir": "the offline trainer",
        "backend": "`DummyVectorEnv`, `SubprocVectorEnv`, ...",
        "loggers": "`logger`",
        "show_progress": "`show_progress`",
        "verbose": "`verbose`",
        "random_seed": "`seed`",
        "device": "`device`",
    }
)
