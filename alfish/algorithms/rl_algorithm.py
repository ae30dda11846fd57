"""The algorithm at the root of a run: it acts in the environments and learns from what it sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from alfish import nest, specs
from alfish.algorithms.algorithm import Algorithm
from alfish.algorithms.carry import Carry
from alfish.algorithms.off_policy import OffPolicyLoop
from alfish.algorithms.on_policy import OnPolicyLoop
from alfish.algorithms.ownership import Ownership, assign_optimizers
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.updater import Updater
from alfish.environments.environment import Environment
from alfish.optimizers.optimizer import Optimizer
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.specs import TensorSpec
from alfish.summary.metrics import EpisodeMetrics
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
        self.loop = make_loop(self, config, updater, seeds, env)
        self.metrics = EpisodeMetrics(
            env.batch_size, self.reward_spec.shape, window=max(config.metric_min_buffer_size, env.batch_size)
        )
        self._env, self._timers, self._config = env, timers, config
        self._carry = Carry()
        self._time_step = self._to_device(env.reset(seed=seeds.integer("env")))
        self._state = specs.zeros(self.rollout_state_spec, env.batch_size, device=config.device)
        return ownership

    def train_iter(self, interact: bool = True) -> None:
        """One iteration: unroll, learn. Without `interact` it only learns, from what is stored."""
        experience = self.unroll(self._carry.take(self._config.unroll_length) if interact else 0)
        if experience is not None:
            self._observe(experience)
        with self._timers("learn"):
            self.loop.train(experience)
        if experience is not None:
            self.after_train_iter(experience)
        self.progress.iterations += 1

    def unroll(self, length: int) -> Experience | None:
        """Acts for `length` steps in every environment; None when there is nothing to do."""
        if length == 0:
            return None
        time_step, state = self._time_step, nest.detach(self._state)
        time_steps, actions, infos, states = [time_step], [], [], []
        keep_graph = torch.set_grad_enabled(self._config.unroll_with_grad)
        with keep_graph:
            for _ in range(length):
                with self._timers("act"):
                    if state != ():
                        state = nest.zero_where(time_step.is_first(), state)
                        states.append(state)
                    step = self.rollout_step(time_step, state)
                with self._timers("env"):
                    time_step = self._to_device(self._env.step(nest.detach(step.output)))
                state = step.state
                time_steps.append(time_step)
                actions.append(step.output)
                infos.append(step.info)
            self._time_step, self._state = time_step, state
            return Experience(
                time_step=nest.stack(time_steps),
                action=nest.stack(actions),
                rollout_info=nest.stack(infos),
                state=nest.stack(states) if states else (),
                final_state=state,
            )

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
            "generators": [algorithm.generator.get_state() for algorithm in self.tree()],
        }

    def load_run_state(self, state: dict[str, Any]) -> None:
        """The inverse of `run_state`. Episodes start anew: the environments were reset by `start`."""
        self.loop.load_state_dict(state["loop"])
        self.metrics.load_state_dict(state["metrics"])
        self.metrics.observe(self._time_step)  # FIRST: what the episodes under way had earned is forgotten
        self._carry.rest = state["carry"]
        for algorithm, generator in zip(self.tree(), state["generators"], strict=True):
            algorithm.generator.set_state(generator)

    def _observe(self, experience: Experience) -> None:
        self.metrics.observe(nest.map(lambda leaf: leaf[1:], experience.time_step))
        self.progress.env_steps = self.metrics.env_steps
        self.progress.episodes = self.metrics.episodes

    def _to_device(self, time_step: TimeStep) -> TimeStep:
        return time_step if self._config.device == "cpu" else nest.to_device(time_step, self._config.device)
