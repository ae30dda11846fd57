"""Every option of a run, in one flat record.

It lives beside the algorithms, not beside the trainer, because the training loops read it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from alfish.algorithms.option_conflicts import conflicts, idle_options
from alfish.config.check import check_arguments, fit_arguments
from alfish.config.problems import ConfigProblems
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
        conf_file: the config that the run was started with. The commands fill it in, from `--gin_file`; in a .gin it
            is an error.
        ml_type: 'rl' learns in environments; 'sl' from the examples that `create_dataset` makes. Then iterations are
            epochs, `algorithm.evaluate()` takes the place of evaluation in environments, and no environment is made.
        algorithm_ctor: makes the algorithm; called with observation_spec, action_spec, reward_spec, env, config and
            debug_summaries; with ml_type 'sl' with dataset, config and debug_summaries.
        data_transformer_ctor: what stands between environments and networks, in order: one or a list, each called with
            observation_spec, e.g. [@FrameStacker, @ImageScaleTransformer]. Metrics show the environments' own rewards.
        random_seed: root of all random streams; None draws one and logs it, and the logged one repeats the run.
        device: where networks live and learn, e.g. 'cpu' or 'cuda'.
        num_threads: torch threads of the learner; None chooses by the size of the networks: 1 up to a few hundred
            units, for convolutions all cores that workers leave. Results are bit-equal only at equal numbers, so a
            resumed run keeps its own.
        enable_amp: unroll and train in mixed precision (autocast): large products in bfloat16, on GPUs without that
            in float16 with a scaled loss. Parameters, experience and actions stay float32; so does evaluation. A CPU
            without instructions for bfloat16 is slower with it.
        empty_cache: give memory that torch keeps on the accelerator back after every iteration.
        compile: make one compiled graph of an update: loss, gradients, clipping, optimizer step; and one of acting,
            where it is in this process. Same learning, up to rounding. It takes up to a minute at the first update,
            less when the disk remembers it, and needs a C++ compiler. 'auto': for runs of 30,000 updates or more. Where
            it cannot be, one line says why, and updates go on without.
        num_iterations: iterations (unroll and update) to train; 0: `num_env_steps` is the budget. With ml_type 'sl':
            epochs.
        num_env_steps: environment steps over all environments; 0: no limit. The step that only resets an environment
            does not count.
        num_epochs: instead of `num_iterations` and `num_env_steps`: this many epochs.
        num_steps_per_epoch: environment steps per epoch, rounded up to whole iterations.
        unroll_length: steps per environment and iteration. A fraction is carried over: 2.5 gives 2, 3, 2, 3.
            0, only with `async_unroll`: what is there, up to `max_unroll_length`, or nothing.
        unroll_episodes: instead of `unroll_length`: this many whole episodes per iteration, over all environments,
            equally many from each. Environments that are done early wait; their steps do not count.
        unroll_with_grad: keep the graph of the unroll and learn from it rather than computing it again. For
            algorithms that update once per unroll; the result is the same.
        async_unroll: worker processes act while the trainer learns, with parameters that may be older. For off-policy
            algorithms. Such a run cannot be repeated to the bit.
        num_unroll_workers: processes that act; each has an equal share of the environments.
        max_unroll_length: with `unroll_length` = 0, the most steps per environment and iteration.
        unroll_queue_size: steps per environment that workers may be ahead of the trainer; then they wait. The larger,
            the older the experience when it is learned from.
        unroll_step_interval: seconds from one step of a worker to the next, for environments in real time; 0: as fast
            as can be. Steps that come late are counted.
        unroll_parameter_update_period: iterations after which workers get new parameters.
        unroll_timeout: seconds without a step after which a worker counts as hung; resets take part of it, too.
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
        mini_batch_size: sequences per update; None: the number of environments; 'whole': all in one batch. With ml_type
            'sl': examples; None: 64.
        whole_replay_buffer_training: every stored step is used once per pass, shuffled; else sequences are sampled.
        clear_replay_buffer: with whole-buffer training, train on the newest unroll only.
        replay_buffer_length: steps stored per environment.
        priority_replay: sample sequences in proportion to their priority (Schaul et al. 2016).
        priority_replay_alpha: exponent of the priorities.
        priority_replay_beta: exponent of the importance weights.
        priority_replay_eps: added to a priority before the exponent.
        normalize_importance_weights_by_max: divide the weights by the largest one of the mini batch.
        offline_buffer_dir: recorded data to learn from, one or several: run folders or checkpoints with their replay,
            dataset folders of `alfish collect`, or `minari:<dataset id>`. None: none.
        offline_buffer_length: time steps taken from each of them, the newest; None: all.
        rl_train_after_update_steps: with recorded data: so many updates are made on these alone, and nobody acts
            before. More than the budget has is offline learning.
        rl_train_every_update_steps: with recorded data: own experience takes part in every so-many-th update.
        nan_policy: what a non-finite loss or gradient does: 'stop' the run, or 'skip' the update. Either way it
            reaches neither the parameters nor a checkpoint.
        evaluate: evaluate during training, on environments and seeds of its own. Bindings in the scope `eval/`, such
            as `eval/load_atari.clip_reward = False`, hold for these environments only.
        eval_interval: iterations between evaluations.
        num_evals: instead of `eval_interval`: exactly this many, evenly spaced, the last one at the end.
        eval_uncertainty: with ml_type 'sl', evaluations also ask `algorithm.eval_uncertainty()` how sure it is, on test
            data and on data of another distribution.
        num_eval_episodes: the first ceil(N / E) episodes of each of the E evaluation environments; -1: one each.
        num_eval_environments: environments to evaluate in.
        async_eval: a worker process evaluates a copy of the parameters while training goes on; results are written
            against the moment of the copy. False: training waits.
        eval_timeout: with `async_eval`, seconds that an evaluation may take, and that the end of training waits for
            the last one.
        epsilon_greedy: in evaluation and play, the chance of sampling an action instead of taking the mode.
        evaluate_upon_training_success: evaluate at once when the training returns meet `stop_condition`.
        stop_condition: callable of an `EvalResult` and the best score so far; True ends training.
        score_fn: callable of an `EvalResult`; what "best" means. None: the mean return. With ml_type 'sl' this and
            `stop_condition` get a `SupervisedEvalResult`, and None is what the algorithm says, e.g. the accuracy.
        reward_reduction: how the return of an episode with a vector reward becomes one number, for metrics, scores and
            `stop_condition`: None or 'sum', 'mean', 'min', 'max', a weight for each element, or a callable that gets
            the sums of an episode as a tuple. What is learned does not depend on it.
        num_checkpoints: evenly spaced over the budget, the last at the end; 0: only the last.
        keep_best: keep the checkpoint with the best evaluation score.
        confirm_checkpoint_upon_crash: when an error ends the run between two iterations, in a hook for example, ask at
            a terminal whether to save; elsewhere, without an answer, and with False, it is saved. An error in the
            middle of an iteration saves nothing: parameters and random streams would be half of that iteration.
        no_thread_env_for_conf: build no environment only to report what is configured. alfish never does: workers
            report what they use.
        ddp_paras_check_interval: under `torchrun`, iterations after which the parameters of all ranks are compared, to
            the bit; 0: never. A difference ends the run, and the error names the parameter and the ranks.
        profiling: write to `profile/` where the time of the training loop goes, also when an error ends the run. The
            run is slower meanwhile.
        code_snapshots: files to keep in `snapshots/` and to show in TensorBoard: paths or globs from the working
            folder, e.g. ['agent.py', 'models/**/*.py']. What is missing is warned of.
        summary_interval: iterations between summaries.
        num_summaries: instead of `summary_interval`: exactly this many, evenly spaced.
        summarize_first_interval: also write every iteration of the first interval.
        update_counter_every_mini_batch: in iterations that write, losses and gradients are written for every update by
            itself, against the number of updates; else their mean, against iterations. Their table is `updates.csv`.
        summaries_flush_secs: seconds that events wait before they are written to disk, at most.
        summary_max_queue: events that wait, at most.
        metric_min_buffer_size: episodes that the average return is taken over, at least; never fewer than the
            number of environments.
        debug_summaries: more about losses, actions and values.
        summarize_grads_and_vars: norms and histograms of parameters and gradients.
        summarize_gradient_noise_scale: the batch size beyond which larger ones hardly help, tr(Sigma) / |G|^2
            (McCandlish et al. 2018), in sequences of a mini batch. Two more backward passes per update where it writes.
        summarize_action_distributions: means, standard deviations, probabilities and entropy of the policy.
        summarize_output: outputs of the layers of all networks while they learn.
        loggers: further places for all numbers besides TensorBoard and CSV: @JsonlLogger(), @WandbLogger(), or any
            object with a method write(moment, values).
        hooks: objects with any of on_train_start, on_iteration_end, on_epoch_end, on_eval_start, on_eval_end,
            on_checkpoint, on_train_end.
        grace_period: seconds from the first SIGINT or SIGTERM until the run has saved and left; after that it leaves
            without saving.
        show_progress: a live line at a terminal, plain lines elsewhere.
        verbose: print what happens at the start and at the end.
    """

    # Run
    root_dir: str = ""
    conf_file: str = ""
    ml_type: Literal["rl", "sl"] = "rl"
    algorithm_ctor: Callable[..., Any] | None = None
    data_transformer_ctor: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None
    random_seed: Count | None = None
    device: str = "cpu"
    num_threads: Positive | None = None
    enable_amp: bool = False
    empty_cache: bool = False
    compile: Literal["off", "on", "auto"] = "off"
    num_iterations: Count = 1000
    num_env_steps: Count = 0
    num_epochs: Count | None = None
    num_steps_per_epoch: Positive | None = None

    # Unroll
    unroll_length: Annotated[float, Range(min=0)] = 8
    unroll_episodes: Positive | None = None
    unroll_with_grad: bool = False
    async_unroll: bool = False
    num_unroll_workers: Positive = 1
    max_unroll_length: Count = 0
    unroll_queue_size: Annotated[int, Range(min=1, max=65536)] = 200
    unroll_step_interval: Annotated[float, Range(min=0)] = 0.0
    unroll_parameter_update_period: Positive = 10
    unroll_timeout: Annotated[float, Range(above=0)] = 300.0
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
    offline_buffer_dir: str | Sequence[str] | None = None
    offline_buffer_length: Annotated[int, Range(min=2)] | None = None
    rl_train_after_update_steps: Count = 0
    rl_train_every_update_steps: Positive = 1
    nan_policy: Literal["stop", "skip"] = "stop"

    # Evaluation
    evaluate: bool = False
    eval_interval: Positive = 10
    num_evals: Positive | None = None
    eval_uncertainty: bool = False
    num_eval_episodes: Annotated[int, Range(min=-1)] = 10
    num_eval_environments: Positive = 1
    async_eval: bool = True
    eval_timeout: Annotated[float, Range(above=0)] = 600.0
    epsilon_greedy: Annotated[float, Range(min=0, max=1)] = 0.0
    evaluate_upon_training_success: bool = False
    stop_condition: Callable[..., bool] | None = None
    score_fn: Callable[..., float] | None = None
    reward_reduction: Literal["sum", "mean", "min", "max"] | Sequence[float] | Callable[..., float] | None = None

    # Checkpoints
    num_checkpoints: Count = 10
    keep_best: bool = True
    confirm_checkpoint_upon_crash: bool = True
    no_thread_env_for_conf: bool = False
    ddp_paras_check_interval: Count = 0
    profiling: bool = False
    code_snapshots: Sequence[str] | None = None

    # Summaries
    summary_interval: Positive = 50
    num_summaries: Positive | None = None
    summarize_first_interval: bool = True
    update_counter_every_mini_batch: bool = False
    summaries_flush_secs: Annotated[float, Range(min=0)] = 1.0
    summary_max_queue: Positive = 10
    metric_min_buffer_size: Positive = 10
    debug_summaries: bool = False
    summarize_grads_and_vars: bool = False
    summarize_gradient_noise_scale: bool = False
    summarize_action_distributions: bool = False
    summarize_output: bool = False
    loggers: Sequence[Any] = ()

    # The outside
    hooks: Sequence[Any] = ()
    grace_period: Annotated[float, Range(above=0)] = 20.0
    show_progress: bool = True
    verbose: bool = True

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        problems = check_arguments(type(self), values) or conflicts(self)
        if problems:
            raise ConfigProblems(problems)
        for name, value in fit_arguments(type(self), values).items():
            object.__setattr__(self, name, value)  # 1e6 becomes an int

    def non_default(self) -> set[str]:
        """The options whose value differs from its default."""
        return {field.name for field in fields(self) if getattr(self, field.name) != field.default}

    def idle_options(self) -> dict[str, list[str]]:
        """Options that were set and have no effect, by the reason."""
        return idle_options(self)
