"""The algorithm at the root of a run: it acts in the environments and learns from what it sees."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from alfish import nest
from alfish.algorithms.algorithm import Algorithm
from alfish.algorithms.carry import Carry
from alfish.algorithms.compiled_rollout import CompiledRolloutStep
from alfish.algorithms.hybrid import HybridLoop
from alfish.algorithms.off_policy import OffPolicyLoop
from alfish.algorithms.on_policy import OnPolicyLoop
from alfish.algorithms.ownership import Ownership, assign_optimizers
from alfish.algorithms.policy_summary import summarize_policy
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.transformers.base import DataTransformer
from alfish.algorithms.transformers.moments import shared_moments
from alfish.algorithms.unroller import LocalUnroller, Unrolled, Unroller
from alfish.algorithms.updater import Updater
from alfish.collective import Collective
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.optimizers.optimizer import Optimizer
from alfish.progress import Progress
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.replay.tape import Tape
from alfish.seeding import Seeds
from alfish.specs import TensorSpec
from alfish.summary.metrics import EpisodeMetrics
from alfish.summary.reward_reduction import RewardReduction
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.types import Experience, Nest, TimeStep


class RLAlgorithm(Algorithm):
    """An algorithm that can drive a run: `start` once, then `train_iter` again and again.

    Args:
        observation_spec: what the networks see.
        action_spec: what the environments take.
        reward_spec: `()`-shaped, or `(R,)` for vector rewards.
        config: the options of the run; None: their defaults.
        train_state_spec: see `Algorithm`.
        rollout_state_spec: see `Algorithm`.
        optimizer: see `Algorithm`.
        debug_summaries: see `Algorithm`.
    """

    on_policy: bool  # learns from fresh experience only, else from replay
    single_update: bool = False  # one update per unroll, over all of it
    sequence_length: int = 2  # time steps of the sequences that are sampled from replay
    tolerates_lag: bool = False  # on-policy, but corrects for experience that older parameters made
    provides_priority: bool = False  # its losses have priorities, for prioritized replay
    has_action_distribution: bool = False  # its policy is random, and given to `summarize_policy` while it learns
    needs_rollout_info: bool = False  # off-policy, but its losses read what rollout_step returned as info
    offline_only: bool = False  # learns from recorded data, and nothing from acting
    # Options that mean nothing to this algorithm, with the reason; setting one is an error.
    idle_options: Mapping[str, str] = {}

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        config: TrainerConfig | None = None,
        *,
        train_state_spec: Nest = (),
        rollout_state_spec: Nest | None = None,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        super().__init__(
            train_state_spec=train_state_spec,
            rollout_state_spec=rollout_state_spec,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
        )
        self.observation_spec = observation_spec
        self.action_spec = action_spec
        self.reward_spec = reward_spec
        self.data_transformer = DataTransformer(observation_spec)  # the run's own one is put here when it is built
        self.epsilon_greedy = config.epsilon_greedy if config else 0.0
        self._summarizes_policy = bool(config and config.summarize_action_distributions)

    def start(
        self,
        env: Environment,
        config: TrainerConfig,
        seeds: Seeds,
        progress: Progress,
        summary: Summary,
        timers: Timers,
        unroller: Unroller | None = None,
        offline: Tape | None = None,
        ranks: Collective | None = None,
    ) -> Ownership:
        """Makes this algorithm the root of a run; returns which optimizer owns which parameter.

        Experience comes from `unroller`; None: this process acts in `env`. What was recorded earlier is `offline`.
        Gradients and counts are over all `ranks`; None: this process is alone.
        """
        self._ranks = ranks or Collective()
        self.attach(progress, summary, seeds)
        ownership = assign_optimizers(self)
        updater = Updater(ownership, progress, summary, config, self._ranks)
        self.loop: OnPolicyLoop | OffPolicyLoop = self._make_loop(config, updater, seeds, env, offline)
        self.metrics = EpisodeMetrics(
            env.batch_size,
            self.reward_spec.shape,
            window=max(config.metric_min_buffer_size, env.batch_size),
            reduction=RewardReduction(config.reward_reduction, self.reward_spec.shape),
        )
        self._env, self._timers, self._config = env, timers, config
        self._carry = Carry()
        self.data_transformer.attach(seeds.torch("transform"))
        self._compiled_rollout = CompiledRolloutStep(self) if self.loop.is_compiled and unroller is None else None
        self._unroller = unroller or LocalUnroller(
            self, env, config, timers, seeds.integer("env"), self._compiled_rollout
        )
        self._unroller.start()
        return ownership

    @property
    def compilation(self) -> dict[str, str]:
        """What came of `TrainerConfig.compile`: 'on', or 'off' and the reason, for updates and for acting."""
        acting = {} if self._compiled_rollout is None else {"compile_acting": self._compiled_rollout.compilation}
        return {"compile": self.loop.compilation, **acting}

    @property
    def time_step(self) -> TimeStep:
        """Where the environments are, as far as is known here, `[B, ...]`."""
        return self._unroller.time_step

    def train_iter(self, interact: bool = True) -> None:
        """One iteration: unroll, learn. Without `interact` it only learns, from what is stored."""
        if not interact:
            self._unroller.rest()
        with shared_moments(self, self._ranks) if self._ranks.size > 1 else nullcontext():
            unrolled = self._interact() if interact and not self.is_pretraining else None
        with self._timers("learn"):
            self.loop.train(unrolled)
        if unrolled is not None and self.looks_at_unrolls:
            self.after_train_iter(unrolled.experience)
        if self.summary.enabled:
            self.summarize_iteration()
        self.progress.iterations += 1

    @property
    def is_pretraining(self) -> bool:
        """Whether it learns from recorded data alone for now, and does not act."""
        return isinstance(self.loop, HybridLoop) and self.loop.is_pretraining

    def unroll(self, length: int) -> Experience | None:
        """Acts for `length` steps in every environment; None when there is nothing to do."""
        return _experience(self._unroll(length))

    def unroll_episodes(self, number: int) -> Experience | None:
        """Plays `number` new episodes to their end: equally many in each environment, the rest in the first ones."""
        return _experience(self._unroll_episodes(number))

    def _make_loop(
        self, config: TrainerConfig, updater: Updater, seeds: Seeds, env: Environment, offline: Tape | None
    ) -> OnPolicyLoop | OffPolicyLoop:
        name = type(self).__name__
        if offline is None and self.offline_only:
            raise ConfigError(
                f"{name} learns from recorded data: set TrainerConfig.offline_buffer_dir to a run folder, or to a "
                "dataset folder of `alfish collect`"
            )
        if offline is not None and self.on_policy:
            raise ConfigError(
                f"TrainerConfig.offline_buffer_dir: {name} is on-policy, it learns from fresh experience only. Use an "
                "off-policy algorithm such as IqlAlgorithm, SacAlgorithm or DqnAlgorithm"
            )
        if offline is not None:
            return HybridLoop(self, config, updater, seeds, env, offline)
        make_loop = OnPolicyLoop if self.on_policy else OffPolicyLoop
        return make_loop(self, config, updater, seeds, env)

    def _interact(self) -> Unrolled | None:
        config = self._config
        if config.unroll_episodes is not None:
            return self._unroll_episodes(config.unroll_episodes)
        if config.unroll_length == 0:
            # Before the first update there is nothing to do but to wait for data.
            return self._count(self._unroller.collect(0 if self.progress.updates else 1, config.max_unroll_length))
        return self._unroll(self._carry.take(config.unroll_length))

    def _unroll(self, length: int) -> Unrolled | None:
        return self._count(self._unroller.collect(length, length))

    def _unroll_episodes(self, number: int) -> Unrolled | None:
        return self._count(self._unroller.collect_episodes(number))

    def _count(self, unrolled: Unrolled | None) -> Unrolled | None:
        """Counts what was unrolled, for the metrics and the budget."""
        if unrolled is None:
            return None
        metrics, progress = self.metrics, self.progress
        steps, episodes = metrics.env_steps, metrics.episodes
        unrolled.count(metrics)
        steps, episodes = self._ranks.total([metrics.env_steps - steps, metrics.episodes - episodes])
        progress.env_steps += steps
        progress.episodes += episodes
        if self.debug_summaries and self.summary.enabled:
            self._summarize_unroll(unrolled.experience)
        return unrolled

    def summarize_policy(self, policy: Nest) -> None:
        """For `TrainerConfig.summarize_action_distributions`: the distributions of a batch, `[T, B]`."""
        if self._summarizes_policy:
            summarize_policy(self.summary, policy)

    def _summarize_unroll(self, experience: Experience) -> None:
        with self.summary.scope("Debug"):
            self.summary.histogram("reward", experience.time_step.reward[1:])
            for name, leaf in nest.named_leaves(experience.action).items():
                self.summary.histogram(f"action/{name}" if name else "action", leaf)

    def run_state(self) -> dict[str, Any]:
        """What a resumed run needs besides parameters and optimizers."""
        return {
            "loop": self.loop.state_dict(),
            "metrics": self.metrics.state_dict(),
            "carry": self._carry.rest,
            "unroller": self._unroller.state_dict(),
            "transformer": self.data_transformer.generator.get_state(),
            "generators": [algorithm.generator.get_state() for algorithm in self.tree()],
        }

    def load_run_state(self, state: dict[str, Any]) -> bool:
        """The inverse of `run_state`; whether the episodes of then go on, else new ones begin."""
        goes_on = self._unroller.resume(state["unroller"])
        self.loop.load_state_dict(state["loop"], None if goes_on else self.time_step)
        self.metrics.load_state_dict(state["metrics"])
        if not goes_on:
            self.metrics.observe(self.time_step)  # FIRST: what the episodes under way had earned is forgotten
        self._carry.rest = state["carry"]
        self.data_transformer.generator.set_state(state["transformer"])
        for algorithm, generator in zip(self.tree(), state["generators"], strict=True):
            algorithm.generator.set_state(generator)
        return goes_on

    @property
    def replay(self) -> ReplayBuffer | None:
        """What the off-policy loop has stored; None on-policy."""
        return self.loop.replay if isinstance(self.loop, OffPolicyLoop) else None

    def load_replay(self, state: dict[str, Any]) -> None:
        """After `load_run_state`: the stored experience of another run of this algorithm."""
        assert isinstance(self.loop, OffPolicyLoop)
        self.loop.load_replay(state)


def _experience(unrolled: Unrolled | None) -> Experience | None:
    return None if unrolled is None else unrolled.experience
