"""The contract that every algorithm fulfils, and the tree they form.

An algorithm is a module that answers time steps with actions and turns experience into a loss. Algorithms nest:
an `Agent` holds an actor-critic and may hold others. Each may bring optimizers of its own; see `ownership`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from alfish import nest, specs
from alfish.algorithms.explanation import Explanation
from alfish.optimizers.optimizer import Optimizer
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.types import AlgStep, Experience, LossInfo, Nest, StepType, TimeStep

_ALL = slice(None)


class Seen(NamedTuple):
    """As far as networks look at sequences: other leaves of time steps need not be cut."""

    observation: Nest  # [T, B, ...]
    is_first: torch.Tensor | None  # [T, B]; None without memory, which alone asks


class Algorithm(nn.Module):
    """What a learner and its parts have in common.

    A subclass overrides what it needs of `predict_step`, `rollout_step`, `train_step` and `calc_loss`. Steps take
    and return `[B, ...]`, losses take `[T, B, ...]`.

    Args:
        train_state_spec: nest of specs of the recurrent state used in training; () without memory.
        rollout_state_spec: of the state carried while unrolling; the same as for training when None.
        predict_state_spec: of the state carried in evaluation and play; the same as for rollout when None.
        optimizer: owns every parameter below this algorithm that no nearer optimizer owns.
        debug_summaries: write additional summaries of losses, actions and values.
    """

    progress: Progress
    summary: Summary
    generator: torch.Generator
    # Submodules that neither rollout nor prediction uses, e.g. "critics.target"; not sent to processes that only act.
    learning_only: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        train_state_spec: Nest = (),
        rollout_state_spec: Nest | None = None,
        predict_state_spec: Nest | None = None,
        optimizer: Optimizer | None = None,
        debug_summaries: bool = False,
    ) -> None:
        super().__init__()
        self.train_state_spec = train_state_spec
        self.rollout_state_spec = train_state_spec if rollout_state_spec is None else rollout_state_spec
        self.predict_state_spec = self.rollout_state_spec if predict_state_spec is None else predict_state_spec
        self.optimizer = optimizer
        self.optimizers: list[tuple[Optimizer, Sequence[nn.Module]]] = []
        self.debug_summaries = debug_summaries
        self.stepwise_training = False  # by choice, see TrainerConfig.temporally_independent_train_step
        self.attach(Progress(), Summary.disabled(), Seeds(0))

    def add_optimizer(self, optimizer: Optimizer, modules: Sequence[nn.Module]) -> None:
        """`optimizer` owns the parameters of `modules`, rather than this algorithm's default one."""
        self.optimizers.append((optimizer, modules))

    def attach(self, progress: Progress, summary: Summary, seeds: Seeds) -> None:
        """Gives the run's counters, summaries and random streams to this algorithm and all below it."""
        for index, algorithm in enumerate(self.tree()):
            algorithm.progress = progress
            algorithm.summary = summary
            algorithm.generator = seeds.torch("action", index)

    def tree(self) -> Iterator[Algorithm]:
        """This algorithm and all below it, parents first."""
        return (module for module in self.modules() if isinstance(module, Algorithm))

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

    # Acting

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        """The action to explore with, and as `info` what training needs to know about it.

        With `TrainerConfig.compile` a graph is made of it at the first step, so it must not depend on what else changes
        in Python, such as a counter of its own. What schedulers say is followed. Other looks at the progress and new
        tensors of modules are noticed; then there is no graph.
        """
        raise NotImplementedError(f"{type(self).__name__} has no rollout_step: it cannot act")

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        """The action in evaluation and play. Default: the exploring one."""
        return self.rollout_step(time_step, state)

    def explain_step(self, time_step: TimeStep, state: Nest, action: Nest) -> Explanation:
        """Why `predict_step` answers with this action, to be shown in play; `state` is that of before. May be empty."""
        return Explanation()

    # Learning

    def preprocess_experience(self, experience: Experience) -> Experience:
        """Called once per unroll or sampled batch, without gradient, before it is cut into mini batches."""
        return experience

    def preprocess_pass(self, rollout_info: Nest, sizes: Sequence[int]) -> Nest:
        """Called on-policy before every pass over an unroll, without gradient, with its mini batches side by side.

        For what they are to have for themselves before they are learned from, such as normalised advantages: all at
        once takes as long as one.

        Args:
            rollout_info: `[T, B, ...]`, shuffled.
            sizes: of the mini batches, in sequences.
        """
        return rollout_info

    def seen_in(self, time_steps: TimeStep, rows: slice = _ALL) -> Seen:
        """What `unroll_network` is given of these rows of sequences `[T, B, ...]`."""
        observation = time_steps.observation if rows is _ALL else nest.index(time_steps.observation, rows)
        return Seen(observation, time_steps.step_type[rows] == StepType.FIRST if self.train_state_spec else None)

    def train_step(self, time_step: TimeStep, state: Nest, rollout_info: Nest) -> AlgStep:
        """What the loss needs of one step, with gradient, as `info`."""
        raise NotImplementedError(f"{type(self).__name__} needs train_step, or a compute_loss of its own")

    def calc_loss(self, info: Nest) -> LossInfo:
        """The loss of `[T, B, ...]` infos. Default: the infos are losses already."""
        assert isinstance(info, LossInfo), f"{type(self).__name__} needs calc_loss"
        return info

    def compute_loss(self, experience: Experience) -> LossInfo:
        """The loss of a mini batch of sequences. Default: `train_step` along the `T` actions, then `calc_loss`."""
        time_steps = nest.map(lambda leaf: leaf[:-1], experience.time_step)
        state = nest.index(experience.state, 0)
        return self.calc_loss(self.train_steps(time_steps, state, experience.rollout_info))

    def train_steps(self, time_steps: TimeStep, state: Nest, rollout_info: Nest) -> Nest:
        """The infos `[T, B, ...]` of `train_step` along a sequence.

        Without memory in one flat batch. With memory step by step: from `state` `[B, ...]`, or from zeros when it
        is (), and anew at every FIRST.
        """
        length, batch = time_steps.step_type.shape
        if self.train_state_spec == () and not self.stepwise_training:
            step = self.train_step(nest.flatten_time(time_steps), (), nest.flatten_time(rollout_info))
            return nest.unflatten_time(step.info, length)
        if state == ():
            state = specs.zeros(self.train_state_spec, batch, device=time_steps.step_type.device)
        infos = []
        for t in range(length):
            time_step = nest.index(time_steps, t)
            state = nest.zero_where(time_step.is_first(), state)
            step = self.train_step(time_step, state, nest.index(rollout_info, t))
            state = step.state
            infos.append(step.info)
        return nest.stack(infos)

    def loss_variant(self) -> Hashable:
        """What the loss depends on besides batch, parameters and random numbers, e.g. whether the actor takes part.

        Asked before every update that is compiled: there is a graph for each answer, so answers should be few.
        """
        return ()

    def wants_more_updates(self, loss_info: LossInfo) -> bool:
        """Asked after every update; False ends the updates of this iteration (PPO's KL limit)."""
        return True

    def after_update(self) -> None:
        """Called after every optimizer step, e.g. to move target networks."""

    def after_train_iter(self, experience: Experience) -> None:
        """Called at the end of every iteration, with what was unrolled in it."""

    @property
    def looks_at_unrolls(self) -> bool:
        """Whether `after_train_iter` does anything: else experience for it need not be stacked."""
        return type(self).after_train_iter is not Algorithm.after_train_iter or "after_train_iter" in self.__dict__

    def summarize_iteration(self) -> None:
        """Called at the end of an iteration that writes summaries."""
