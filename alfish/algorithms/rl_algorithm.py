"""The algorithm at the root of a run: it acts in the environments and learns from what it sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from alfish import nest, specs
from alfish.algorithms.algorithm import Algorithm
from alfish.algorithms.carry import Carry
from alfish.algorithms.off_policy import OffPolicyLoop
from alfish.algorithms.on_policy import OnPolicyLoop
from alfish.algorithms.ownership import Ownership, assign_optimizers
from alfish.algorithms.random_actions import RandomActions
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.transformers.base import DataTransformer
from alfish.algorithms.updater import Updater
from alfish.environments.environment import Environment
from alfish.optimizers.optimizer import Optimizer
from alfish.progress import Progress
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.seeding import Seeds
from alfish.specs import TensorSpec
from alfish.summary.metrics import EpisodeMetrics
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.types import Experience, Nest, StepType, TimeStep, replace


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

    _time_step: TimeStep  # where the environments are
    _seen: TimeStep | None  # the same as the networks see it; None: not transformed yet

    on_policy: bool  # learns from fresh experience only, else from replay
    single_update: bool = False  # one update per unroll, over all of it
    sequence_length: int = 2  # time steps of the sequences that are sampled from replay
    provides_priority: bool = False  # its losses have priorities, for prioritized replay
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

    def start(
        self,
        env: Environment,
        config: TrainerConfig,
        seeds: Seeds,
        progress: Progress,
        summary: Summary,
        timers: Timers,
    ) -> Ownership:
        """Makes this algorithm the root of a run; returns which optimizer owns which parameter."""
        self.attach(progress, summary, seeds)
        ownership = assign_optimizers(self)
        updater = Updater(ownership, progress, summary, config)
        make_loop = OnPolicyLoop if self.on_policy else OffPolicyLoop
        self.loop: OnPolicyLoop | OffPolicyLoop = make_loop(self, config, updater, seeds, env)
        self.metrics = EpisodeMetrics(
            env.batch_size, self.reward_spec.shape, window=max(config.metric_min_buffer_size, env.batch_size)
        )
        self._env, self._timers, self._config = env, timers, config
        self._random_actions = (
            RandomActions(env.observation_spec, env.action_spec) if config.random_initial_collect else None
        )
        self._carry = Carry()
        self.data_transformer.attach(seeds.torch("transform"))
        self._transformer_state = specs.zeros(self.data_transformer.state_spec, env.batch_size, device=config.device)
        self._set_time_step(env.reset(seed=seeds.integer("env")))
        self._state = specs.zeros(self.rollout_state_spec, env.batch_size, device=config.device)
        return ownership

    def train_iter(self, interact: bool = True) -> None:
        """One iteration: unroll, learn. Without `interact` it only learns, from what is stored."""
        experience = self._interact() if interact else None
        with self._timers("learn"):
            self.loop.train(experience)
        if experience is not None:
            self.after_train_iter(experience)
        self.progress.iterations += 1

    def unroll(self, length: int) -> Experience | None:
        """Acts for `length` steps in every environment; None when there is nothing to do."""
        if length == 0:
            return None
        rows = _Rows(self._time_step)
        with torch.set_grad_enabled(self._config.unroll_with_grad):
            for _ in range(length):
                self._unroll_step(rows, self._env.step)
            experience = rows.experience(self._state)
            self._observe(experience.time_step)
            return self._to_train_on(experience, rows)

    def unroll_episodes(self, number: int) -> Experience:
        """Plays `number` new episodes to their end: equally many in each environment, the rest in the first ones.

        What an environment does after its last episode is neither counted nor trained on: to the metrics it is FIRST,
        to the loss LAST, whose actions have no weight.
        """
        batch = self._env.batch_size
        left = torch.tensor([number // batch + (index < number % batch) for index in range(batch)])
        rows = _Rows(self._time_step)
        idle = [left == 0]
        with torch.set_grad_enabled(self._config.unroll_with_grad):
            if not self._time_step.is_first().all():
                idle.append(left == 0)
                self._unroll_step(rows, lambda _: self._env.reset())
            while (left > 0).any():
                idle.append(left == 0)
                self._unroll_step(rows, self._env.step)
                left -= (self._time_step.is_last().cpu() & (left > 0)).long()
            raw = rows.experience(self._state)
            experience = self._to_train_on(raw, rows)
        is_idle = torch.stack(idle).to(self._config.device)
        counted = raw.time_step.step_type.masked_fill(is_idle, StepType.FIRST)
        self._observe(replace(raw.time_step, step_type=counted))
        # Also where an episode under way is given up.
        last = torch.full_like(self._time_step.step_type, StepType.LAST)
        self._seen = replace(self._see(), step_type=last)
        self._time_step = replace(self._time_step, step_type=last)
        time_step = experience.time_step
        return replace(
            experience, time_step=replace(time_step, step_type=time_step.step_type.masked_fill(is_idle, StepType.LAST))
        )

    def _interact(self) -> Experience | None:
        if self._config.unroll_episodes is not None:
            return self.unroll_episodes(self._config.unroll_episodes)
        return self.unroll(self._carry.take(self._config.unroll_length))

    def _unroll_step(self, rows: _Rows, move: Callable[[Nest], TimeStep]) -> None:
        """One step in every environment, recorded in `rows`; `move` gives the action to the environments."""
        state = self._state
        with self._timers("act"):
            time_step = self._see()
            if state != ():
                state = nest.zero_where(time_step.is_first(), nest.detach(state) if not rows.actions else state)
                rows.states.append(state)
            step = self.rollout_step(time_step, state)
            action = step.output
            if self._random_actions is not None and self.progress.env_steps < self._config.initial_collect_steps:
                action = self._random_actions(self._time_step.observation, self.generator)
        with self._timers("env"):
            self._set_time_step(move(nest.detach(action)))
        self._state = step.state
        rows.seen.append(time_step)
        rows.time_steps.append(self._time_step)
        rows.actions.append(action)
        rows.infos.append(step.info)

    def _set_time_step(self, time_step: TimeStep) -> None:
        self._time_step = self._to_device(time_step)
        self._seen = None

    def _see(self) -> TimeStep:
        """The current time step as the networks see it. Transformed once: statistics count every time step once."""
        if self._seen is None:
            transform = self.data_transformer.transform_timestep
            self._seen, self._transformer_state = transform(self._time_step, self._transformer_state)
        return self._seen

    def _to_train_on(self, experience: Experience, rows: _Rows) -> Experience:
        """Raw data for replay, which transforms what is drawn; on-policy, what the networks saw."""
        if not self.on_policy or rows.seen[0] is rows.time_steps[0]:
            return experience
        return replace(experience, time_step=nest.stack([*rows.seen, self._see()]))

    @contextmanager
    def evaluating(self, generator: torch.Generator) -> Iterator[None]:
        """Inside the block modules are in evaluation mode, and sampling leaves the training streams alone."""
        own = [algorithm.generator for algorithm in self.tree()]
        was_training = self.training
        self.eval()
        for algorithm in self.tree():
            algorithm.generator = generator
        try:
            with torch.no_grad():
                yield
        finally:
            self.train(was_training)
            for algorithm, its_own in zip(self.tree(), own, strict=True):
                algorithm.generator = its_own

    def run_state(self) -> dict[str, Any]:
        """What a resumed run needs besides parameters and optimizers."""
        return {
            "loop": self.loop.state_dict(),
            "metrics": self.metrics.state_dict(),
            "carry": self._carry.rest,
            "transformer": self.data_transformer.generator.get_state(),
            "generators": [algorithm.generator.get_state() for algorithm in self.tree()],
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """The inverse of `run_state`. Episodes start anew: the environments were reset by `start`."""
        self.loop.load_state_dict(state["loop"], self._time_step)
        self.metrics.load_state_dict(state["metrics"])
        self.metrics.observe(self._time_step)  # FIRST: what the episodes under way had earned is forgotten
        self._carry.rest = state["carry"]
        self.data_transformer.generator.set_state(state["transformer"])
        for algorithm, generator in zip(self.tree(), state["generators"], strict=True):
            algorithm.generator.set_state(generator)

    @property
    def replay(self) -> ReplayBuffer | None:
        """What the off-policy loop has stored; None on-policy."""
        return self.loop.replay if isinstance(self.loop, OffPolicyLoop) else None

    def load_replay(self, state: dict[str, Any]) -> None:
        """After `load_run_state`: the stored experience of another run of this algorithm."""
        assert isinstance(self.loop, OffPolicyLoop)
        self.loop.load_replay(state)

    def _observe(self, time_steps: TimeStep) -> None:
        """Counts `[T + 1, B]` time steps; the first row was counted with the unroll before."""
        self.metrics.observe(nest.map(lambda leaf: leaf[1:], time_steps))
        self.progress.env_steps = self.metrics.env_steps
        self.progress.episodes = self.metrics.episodes

    def _to_device(self, time_step: TimeStep) -> TimeStep:
        return time_step if self._config.device == "cpu" else nest.to_device(time_step, self._config.device)


class _Rows:
    """The steps of an unroll, stacked at its end: cheaper than writing every step into place."""

    def __init__(self, time_step: TimeStep) -> None:
        self.time_steps = [time_step]
        self.seen: list[TimeStep] = []  # the same, transformed, but the last
        self.actions: list[Nest] = []
        self.infos: list[Nest] = []
        self.states: list[Nest] = []

    def experience(self, final_state: Nest) -> Experience:
        return Experience(
            time_step=nest.stack(self.time_steps),
            action=nest.stack(self.actions),
            rollout_info=nest.stack(self.infos),
            state=nest.stack(self.states) if self.states else (),
            final_state=final_state,
        )
