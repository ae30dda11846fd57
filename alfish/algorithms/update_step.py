"""One update from a mini batch: as Python says it, or as one compiled graph (`TrainerConfig.compile`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from alfish import nest
from alfish.algorithms.compilation import (
    CannotCompile,
    CompiledGraph,
    compile_graph,
    each_once,
    failure,
    find_compiler,
)
from alfish.algorithms.tracing import FollowedNumber, traced
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.updater import Updater, total_loss
from alfish.optimizers.optimizer import GradientNorms
from alfish.replay.structure import Assembler, assembler
from alfish.types import LossInfo, Nest

if TYPE_CHECKING:
    from alfish.algorithms.rl_algorithm import RLAlgorithm

_log = logging.getLogger(__name__)

# A compiled update saves 1 to 5 ms; compiling takes 20 to 60 s the first time.
WORTH_COMPILING = 30_000  # updates
_MOST_GRAPHS = 6  # each takes as long to compile

Loss = Callable[[Nest], tuple[LossInfo, torch.Tensor]]


class UpdateStep:
    """Learns from mini batches, one optimizer step each.

    Args:
        loss: of a mini batch, and the weight `[T, B]` of each of its steps; see `Updater.update`.
        updater: takes the step.
        compilation: what came of `TrainerConfig.compile`, for `run.json`: 'on', or 'off' and the reason.
    """

    def __init__(self, loss: Loss, updater: Updater, compilation: str = "off") -> None:
        self._loss = loss
        self._updater = updater
        self.compilation = compilation

    @property
    def is_compiled(self) -> bool:
        """Whether it is done with a batch when a call ends: nothing that Python remembers can hold on to it."""
        return False

    def __call__(self, batch: Nest) -> tuple[LossInfo, bool]:
        """The loss, and whether the step was made."""
        loss_info, weight = self._loss(batch)
        return loss_info, self._updater.update(loss_info, weight, batch)


class _Compiled(NamedTuple):
    variants: list[Hashable]  # what each algorithm of the tree called its loss
    graph: CompiledGraph
    loss: Assembler  # makes it of the outputs
    followed: list[FollowedNumber]  # what the graph reads besides learning rates


class CompiledUpdateStep(UpdateStep):
    """The same numbers, up to rounding, from one graph: loss, gradients, check, clipping and optimizer step.

    A graph is made for every shape of mini batches and every `Algorithm.loss_variant`. Where that fails, one line says
    why, and updates go on as Python says them.

    Where summaries are written, the loss is computed once more, for them alone: what is learned does not depend on it.
    """

    def __init__(self, loss: Loss, updater: Updater, algorithm: RLAlgorithm, compilation: str) -> None:
        super().__init__(loss, updater, compilation)
        self._algorithm = algorithm
        self._parts = list(algorithm.tree())
        self._optimizers = updater.ownership.optimizers
        device = next(algorithm.parameters()).device
        self._rates = {name: FollowedNumber(each.current_lr, device) for name, each in self._optimizers.items()}
        self._graphs: list[_Compiled] = []
        self._states: list[Any] = []  # of the optimizers, when the graphs were made
        # The newest batch, its leaves and its graphs: replay may use the memory of a batch again, see `is_compiled`.
        self._batch: Nest = None
        self._leaves: list[torch.Tensor] = []
        self._fitting: list[_Compiled] = []
        self._given_up = False

    @property
    def is_compiled(self) -> bool:
        return not self._given_up

    def __call__(self, batch: Nest) -> tuple[LossInfo, bool]:
        compiled = None if self._given_up else self._find(batch)
        if compiled is None:
            return super().__call__(batch)
        shown = self._look(batch) if self._algorithm.summary.enabled else None
        for number in (*self._rates.values(), *compiled.followed):
            number.refresh(self._algorithm.progress)
        outputs = compiled.graph(self._leaves)
        loss_info: LossInfo = compiled.loss(outputs)
        value, *norms = outputs[0].tolist()
        by_name = dict(zip(self._optimizers, norms, strict=True))
        return loss_info, self._updater.conclude(value, by_name, shown or (loss_info, None), batch)

    def _look(self, batch: Nest) -> tuple[LossInfo, torch.Tensor]:
        """The loss with all that summaries show of it; gradients are left in the parameters for them."""
        with self._same_random_numbers():
            loss_info, weight = self._loss(batch)
        self._updater.show_gradients(loss_info, weight)
        return loss_info, weight

    def _find(self, batch: Nest) -> _Compiled | None:
        """The graph for such a batch; None when there is none."""
        states = [optimizer.states for optimizer in self._optimizers.values()]
        if not all(map(is_, states, self._states)):
            self._graphs.clear()
            self._batch = None
        if batch is not self._batch:
            self._batch, self._leaves = batch, nest.leaves(batch)
            self._fitting = [compiled for compiled in self._graphs if compiled.graph.fits(self._leaves)]
        variants = [part.loss_variant() for part in self._parts]
        for compiled in self._fitting:
            if compiled.variants == variants:
                return compiled
        try:
            if len(self._graphs) == _MOST_GRAPHS:
                raise CannotCompile(f"mini batches have more than {_MOST_GRAPHS} different shapes")
            started = time.monotonic()
            self._graphs.append(self._compile(batch, variants))
            self._fitting.append(self._graphs[-1])
            _log.info("compiled an update in %.0f s", time.monotonic() - started)
        except Exception as error:  # a compiler can fail in any way, and the run can go on without
            self._given_up = True
            self.compilation = f"off: {failure(error)}"
            warn_of_fallback(failure(error))
            return None
        self._states = [optimizer.states for optimizer in self._optimizers.values()]
        return self._graphs[-1]

    def _compile(self, batch: Nest, variants: list[Hashable]) -> _Compiled:
        for optimizer in self._optimizers.values():
            optimizer.make_states()
        structure: list[LossInfo] = []

        def update(leaves: list[torch.Tensor]) -> list[torch.Tensor]:
            loss_info, weight = self._loss(nest.unflatten(batch, leaves))
            loss = total_loss(loss_info, weight)
            norms = self._step(loss)
            watch.check("its loss")
            numbers = torch.cat([loss.detach().reshape(1), norms])
            outputs, places = each_once(loss_info)
            structure.append(nest.map(lambda place: 1 + place, places))
            return [numbers, *(leaf.detach() for leaf in outputs)]

        with traced(self._algorithm) as watch:
            graph = compile_graph(update, nest.leaves(batch))
        return _Compiled(variants, graph, assembler(structure[0]), watch.followed)

    def _step(self, loss: torch.Tensor) -> torch.Tensor:
        """Changes parameters and optimizer states unless a number is not finite; the norms of the gradients."""
        owned = [each.named_parameters.values() for each in self._optimizers.values()]
        parameters = [parameter for each in owned for parameter in each]
        gradients = iter(torch.autograd.grad(loss, parameters, allow_unused=True))
        with torch.no_grad():
            graded = {
                name: {key: gradient for key in optimizer.named_parameters if (gradient := next(gradients)) is not None}
                for name, optimizer in self._optimizers.items()
            }
            rates = {name: rate.tensor for name, rate in self._rates.items()}
            norms = {name: GradientNorms.of(list(each.values()), rates[name]) for name, each in graded.items()}
            totals = torch.stack([each.total for each in norms.values()])
            is_finite = torch.isfinite(loss.detach()) & torch.isfinite(totals).all()
            for name, optimizer in self._optimizers.items():
                for old, new in optimizer.changes(graded[name], norms[name], rates[name], is_finite):
                    old.copy_(new)
        return totals

    @contextmanager
    def _same_random_numbers(self) -> Iterator[None]:
        """What is drawn inside the block is drawn again after it."""
        generators = [part.generator for part in self._parts]
        states = [generator.get_state() for generator in generators]
        yield
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


def make_update_step(
    algorithm: RLAlgorithm, config: TrainerConfig, updater: Updater, loss: Loss, num_environments: int
) -> UpdateStep:
    """As `config.compile` says, as far as it can be."""
    if config.compile == "off":
        return UpdateStep(loss, updater)
    choice = ""
    if config.compile == "auto":
        expected = expected_updates(algorithm, config, num_environments)
        choice = f"about {expected:,.0f} updates are expected, and compiling pays from {WORTH_COMPILING:,} on"
        if expected < WORTH_COMPILING:
            return UpdateStep(loss, updater, f"off: {choice}")
    try:
        _check(algorithm, config, updater)
        find_compiler()
    except CannotCompile as reason:
        warn_of_fallback(str(reason))
        return UpdateStep(loss, updater, f"off: {reason}")
    return CompiledUpdateStep(loss, updater, algorithm, f"on: {choice}" if choice else "on")


def warn_of_fallback(reason: str) -> None:
    _log.warning("TrainerConfig.compile: updates are not compiled, since %s", reason)


def expected_updates(algorithm: RLAlgorithm, config: TrainerConfig, num_environments: int) -> float:
    """Of the whole run, roughly: initial collection and early ends are not looked at."""
    steps = (config.unroll_length or config.max_unroll_length) * num_environments  # of an iteration
    iterations = config.num_iterations or config.num_env_steps / max(steps, 1)
    if config.num_epochs is not None:
        iterations = config.num_epochs * (config.num_steps_per_epoch or 0) / max(steps, 1)
    if algorithm.single_update:
        return iterations
    if config.num_updates_per_env_step is not None:
        return iterations * steps * config.num_updates_per_env_step
    passes = config.num_updates_per_train_iter
    if not config.whole_replay_buffer_training:
        return iterations * passes
    size = config.mini_batch_size or num_environments
    sequences = steps / (config.mini_batch_length or max(config.unroll_length, 1))
    return iterations * passes * (1 if size == "whole" else max(1, sequences // size))


def _check(algorithm: RLAlgorithm, config: TrainerConfig, updater: Updater) -> None:
    name = type(algorithm).__name__
    if algorithm.train_state_spec != ():
        raise CannotCompile(f"{name} has memory: its sequences are learned step by step")
    if any(part.stepwise_training for part in algorithm.tree()):
        raise CannotCompile("temporally_independent_train_step is False: sequences are learned step by step")
    if algorithm.on_policy and config.unroll_episodes is not None:
        raise CannotCompile("unroll_episodes gives mini batches of any size")
    if config.enable_amp or config.unroll_with_grad:
        raise CannotCompile(f"{'enable_amp' if config.enable_amp else 'unroll_with_grad'} is True")
    if config.offline_buffer_dir:
        raise CannotCompile("recorded and own experience take turns in it")
    if updater.ranks.size > 1:
        raise CannotCompile("gradients are averaged over several processes")
