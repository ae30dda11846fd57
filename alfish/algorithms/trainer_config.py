"""Every option of a run, in one flat record.

It lives beside the algorithms, not beside the trainer, because the training loops read it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from alfish.config.check import check_arguments, fit_arguments
from alfish.config.problems import ConfigProblems, Problem
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.optimizers.schedulers import Scheduler

Count = Annotated[int, Range(min=0)]
Positive = Annotated[int, Range(min=1)]


@configurable
@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """The options of a run. Values are checked when the record is made: types, ranges and conflicts.

    Args:
        root_dir: the run folder; `--root_dir`, else `runs/<config name>/<time>`. A folder that holds checkpoints is
            resumed.
        algorithm_ctor: makes the algorithm; called with observation_spec, action_spec, reward_spec, env, config and
            debug_summaries.
        data_transformer_ctor: what stands between environments and networks, in order: one or a list, each called with
            observation_spec, e.g. [@FrameStacker, @ImageScaleTransformer]. Metrics show the environments' own rewards.
        random_seed: root of all random streams; None draws one and logs it, and the logged one repeats the run.
        device: where networks live and learn, e.g. 'cpu' or 'cuda'.
        num_threads: torch threads of the learner; None means 1, which is fastest for networks up to a few hundred
            units wide. Results are bit-equal only at equal numbers.
        num_iterations: iterations (unroll and update) to train; 0: `num_env_steps` is the budget.
        num_env_steps: environment steps over all environments; 0: no limit. The step that only resets an environment
            does not count.
        num_epochs: instead of `num_iterations` and `num_env_steps`: this many epochs.
        num_steps_per_epoch: environment steps per epoch, rounded up to whole iterations.
        unroll_length: steps per environment and iteration. A fraction is carried over: 2.5 gives 2, 3, 2, 3.
        unroll_episodes: instead of `unroll_length`: this many whole episodes per iteration, over all environments,
            equally many from each. Environments that are done early wait; their steps do not count.
        unroll_with_grad: keep the graph of the unroll and learn from it rather than computing it again. For
            algorithms that update once per unroll; the result is the same.
        use_rollout_state: start replayed sequences from the recurrent state stored while unrolling, else from zeros.
        temporally_independent_train_step: train the steps of a sequence as one flat batch; None: when the algorithm
            has no memory.
        initial_collect_steps: environment steps, over all environments, before the first update.
        random_initial_collect: take uniform random actions during the initial collection.
        num_updates_per_env_step: instead of `num_updates_per_train_iter`: updates per environment step collected;
            fractions are carried over.
        num_updates_per_train_iter: passes over the data (whole-buffer training), or optimizer steps (sampling).
        mini_batch_length: length of the trained sequences. Whole-buffer training: in actions, None is the whole
            unroll. Sampling: in time steps, None is what the algorithm needs.
        mini_batch_size: sequences per update; None: the number of environments; 'whole': all in one batch.
        whole_replay_buffer_training: every stored step is used once per pass, shuffled; else sequences are sampled.
        clear_replay_buffer: with whole-buffer training, train on the newest unroll only.
        replay_buffer_length: steps stored per environment.
        priority_replay: sample sequences in proportion to their priority (Schaul et al. 2016).
        priority_replay_alpha: exponent of the priorities.
        priority_replay_beta: exponent of the importance weights.
        priority_replay_eps: added to a priority before the exponent.
        normalize_importance_weights_by_max: divide the weights by the largest one of the mini batch.
        nan_policy: what a non-finite loss or gradient does: 'stop' the run, or 'skip' the update. Either way it
            reaches neither the parameters nor a checkpoint.
        evaluate: evaluate during training, on environments and seeds of its own. Bindings in the scope `eval/`, such
            as `eval/load_atari.clip_reward = False`, hold for these environments only.
        eval_interval: iterations between evaluations.
        num_evals: instead of `eval_interval`: exactly this many, evenly spaced, the last one at the end.
        num_eval_episodes: the first ceil(N / E) episodes of each of the E evaluation environments; -1: one each.
        num_eval_environments: environments to evaluate in.
        epsilon_greedy: in evaluation and play, the chance of sampling an action instead of taking the mode.
        evaluate_upon_training_success: evaluate at once when the training returns meet `stop_condition`.
        stop_condition: callable of an `EvalResult` and the best score so far; True ends training.
        score_fn: callable of an `EvalResult`; what "best" means. None: the mean return.
        num_checkpoints: evenly spaced over the budget, the last at the end; 0: only the last.
        keep_best: keep the checkpoint with the best evaluation score.
        summary_interval: iterations between summaries.
        num_summaries: instead of `summary_interval`: exactly this many, evenly spaced.
        summarize_first_interval: also write every iteration of the first interval.
        summaries_flush_secs: seconds that events wait before they are written to disk, at most.
        summary_max_queue: events that wait, at most.
        metric_min_buffer_size: episodes that the average return is taken over, at least; never fewer than the
            number of environments.
        debug_summaries: more about losses, actions and values.
        summarize_grads_and_vars: norms and histograms of parameters and gradients.
        hooks: objects with any of on_train_start, on_iteration_end, on_epoch_end, on_eval_start, on_eval_end,
            on_checkpoint, on_train_end.
        show_progress: a live line at a terminal, plain lines elsewhere.
        verbose: print what happens at the start and at the end.
    """

    # Run
    root_dir: str = ""
    algorithm_ctor: Callable[..., Any] | None = None
    data_transformer_ctor: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None
    random_seed: Count | None = None
    device: str = "cpu"
    num_threads: Positive | None = None
    num_iterations: Count = 1000
    num_env_steps: Count = 0
    num_epochs: Count | None = None
    num_steps_per_epoch: Positive | None = None

    # Unroll
    unroll_length: Annotated[float, Range(above=0)] = 8
    unroll_episodes: Positive | None = None
    unroll_with_grad: bool = False
    use_rollout_state: bool = False
    temporally_independent_train_step: bool | None = None

    # Updates
    initial_collect_steps: Count = 0
    random_initial_collect: bool = False
    num_updates_per_train_iter: Positive = 4
    num_updates_per_env_step: Annotated[float, Range(above=0)] | None = None
    mini_batch_length: Positive | None = None
    mini_batch_size: Positive | Literal["whole"] | None = None
    whole_replay_buffer_training: bool = True
    clear_replay_buffer: bool = True
    replay_buffer_length: Positive = 1024
    priority_replay: bool = False
    priority_replay_alpha: Annotated[float, Range(min=0)] | Scheduler = 0.7
    priority_replay_beta: Annotated[float, Range(min=0)] | Scheduler = 0.4
    priority_replay_eps: Annotated[float, Range(above=0)] = 1e-6
    normalize_importance_weights_by_max: bool = False
    nan_policy: Literal["stop", "skip"] = "stop"

    # Evaluation
    evaluate: bool = False
    eval_interval: Positive = 10
    num_evals: Positive | None = None
    num_eval_episodes: Annotated[int, Range(min=-1)] = 10
    num_eval_environments: Positive = 1
    epsilon_greedy: Annotated[float, Range(min=0, max=1)] = 0.0
    evaluate_upon_training_success: bool = False
    stop_condition: Callable[..., bool] | None = None
    score_fn: Callable[..., float] | None = None

    # Checkpoints
    num_checkpoints: Count = 10
    keep_best: bool = True

    # Summaries
    summary_interval: Positive = 50
    num_summaries: Positive | None = None
    summarize_first_interval: bool = True
    summaries_flush_secs: Annotated[float, Range(min=0)] = 1.0
    summary_max_queue: Positive = 10
    metric_min_buffer_size: Positive = 10
    debug_summaries: bool = False
    summarize_grads_and_vars: bool = False

    # The outside
    hooks: Sequence[Any] = ()
    show_progress: bool = True
    verbose: bool = True

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        problems = check_arguments(type(self), values) or list(self._conflicts())
        if problems:
            raise ConfigProblems(problems)
        for name, value in fit_arguments(type(self), values).items():
            object.__setattr__(self, name, value)  # 1e6 becomes an int

    def non_default(self) -> set[str]:
        """The options whose value differs from its default."""
        return {field.name for field in fields(self) if getattr(self, field.name) != field.default}

    def _conflicts(self) -> list[Problem]:
        """What is wrong between options; every problem names the options it is about."""
        found: list[Problem] = []

        def problem(options: str, message: str) -> None:
            found.append(Problem(tuple(f"TrainerConfig.{name}" for name in options.split()), message))

        if self.algorithm_ctor is None:
            problem(
                "algorithm_ctor", "is not set. Add a line such as\n    TrainerConfig.algorithm_ctor = @PPOAlgorithm"
            )
        if self.num_epochs is None:
            if self.num_iterations == 0 and self.num_env_steps == 0:
                problem(
                    "num_iterations num_env_steps",
                    "are both 0, so there is no budget. Set one, or num_epochs and num_steps_per_epoch",
                )
            if self.num_steps_per_epoch is not None:
                problem("num_steps_per_epoch", "is set without num_epochs; set both, or neither")
        else:
            if self.num_steps_per_epoch is None:
                problem("num_epochs", "is set without num_steps_per_epoch; set both, or neither")
            if self.num_env_steps or self.num_iterations not in (0, type(self).num_iterations):
                problem(
                    "num_epochs num_iterations num_env_steps",
                    "are two budgets; keep num_epochs, or num_iterations and num_env_steps",
                )
        if self.num_eval_episodes == 0:
            problem("num_eval_episodes", "is 0; use evaluate = False for no evaluation, -1 for one per environment")
        if self.num_epochs is not None and (self.num_evals or self.eval_interval != type(self).eval_interval):
            problem("num_epochs num_evals eval_interval", "epochs end with an evaluation; leave the others out")
        if self.num_evals is not None and not self.evaluate:
            problem("num_evals evaluate", "num_evals needs evaluate = True")
        if self.evaluate_upon_training_success and not (self.evaluate and self.stop_condition):
            problem(
                "evaluate_upon_training_success evaluate stop_condition",
                "evaluating upon training success needs evaluate = True and a stop_condition, "
                "for example @ReturnAtLeast() with ReturnAtLeast.value = 475",
            )
        elif self.stop_condition is not None and not self.evaluate:
            problem("stop_condition evaluate", "a stop_condition looks at evaluations: it needs evaluate = True")
        if self.unroll_episodes is not None and self.unroll_length != type(self).unroll_length:
            problem("unroll_episodes unroll_length", "are two ways to unroll; keep one")
        if self.unroll_episodes is not None and self.num_epochs is not None:
            problem("unroll_episodes num_epochs", "epochs are made of steps; use unroll_length")
        if self.num_updates_per_env_step is not None:
            if self.num_updates_per_train_iter != type(self).num_updates_per_train_iter:
                problem("num_updates_per_env_step num_updates_per_train_iter", "say the same thing twice; keep one")
            if self.whole_replay_buffer_training:
                problem(
                    "num_updates_per_env_step whole_replay_buffer_training",
                    "a number of updates needs sampling: set whole_replay_buffer_training = False",
                )
        if self.priority_replay and self.whole_replay_buffer_training:
            problem(
                "priority_replay whole_replay_buffer_training",
                "priorities matter for sampling: set whole_replay_buffer_training = False",
            )
        if self.random_initial_collect and not self.initial_collect_steps:
            problem("random_initial_collect initial_collect_steps", "random actions for how long? Set both")
        if not self.whole_replay_buffer_training and self.mini_batch_size == "whole":
            problem(
                "mini_batch_size whole_replay_buffer_training",
                "'whole' needs whole_replay_buffer_training = True",
            )
        if not self.whole_replay_buffer_training and self.mini_batch_length == 1:
            problem(
                "mini_batch_length whole_replay_buffer_training",
                "sampled sequences count time steps: one transition is mini_batch_length = 2",
            )
        return found
