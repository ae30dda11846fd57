"""Acting as one compiled graph (`TrainerConfig.compile`): with small environments it is most of the work."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

import torch

from alfish import nest
from alfish.algorithms.compilation import CannotCompile, CompiledGraph, compile_graph, each_once, failure
from alfish.algorithms.tracing import FollowedNumber, traced
from alfish.replay.structure import Assembler, Lister, assembler, lister
from alfish.types import AlgStep, Nest, TimeStep

if TYPE_CHECKING:
    from alfish.algorithms.rl_algorithm import RLAlgorithm

_log = logging.getLogger(__name__)


class _Compiled(NamedTuple):
    inputs: Lister  # of time step and state
    graph: CompiledGraph
    answer: Assembler  # makes the step of the outputs; an action is often there twice
    followed: list[FollowedNumber]  # what the graph reads besides


class CompiledRolloutStep:
    """`rollout_step` of an algorithm: the same answers, up to rounding, and the same random numbers.

    The graph is made at the first step. Where that fails, the algorithm answers itself, as it does to inputs of another
    layout than the first.
    """

    def __init__(self, algorithm: RLAlgorithm) -> None:
        self._algorithm = algorithm
        self._compiled: _Compiled | None = None
        self.compilation = "on"  # what came of it, for `run.json`: 'on', or 'off' and the reason

    def __call__(self, time_step: TimeStep, state: Nest) -> AlgStep:
        if self._compiled is None and self.compilation == "on":
            self._compiled = self._try_to_compile(time_step, state)
        compiled = self._compiled
        if compiled is None:
            return self._algorithm.rollout_step(time_step, state)
        inputs = compiled.inputs((time_step, state))
        if not compiled.graph.fits(inputs):
            return self._algorithm.rollout_step(time_step, state)
        for number in compiled.followed:
            number.refresh(self._algorithm.progress)
        step: AlgStep = compiled.answer(compiled.graph(inputs))
        return step

    def _try_to_compile(self, time_step: TimeStep, state: Nest) -> _Compiled | None:
        started = time.monotonic()
        try:
            compiled = self._compile(time_step, state)
        except Exception as error:  # a compiler can fail in any way, and the run can go on without
            self.compilation = f"off: {failure(error)}"
            _log.info("acting is not compiled, since %s", failure(error))
            return None
        _log.info("compiled acting in %.0f s", time.monotonic() - started)
        return compiled

    def _compile(self, time_step: TimeStep, state: Nest) -> _Compiled:
        answers: list[Nest] = []

        def act(leaves: list[torch.Tensor]) -> list[torch.Tensor]:
            step = self._algorithm.rollout_step(*nest.unflatten((time_step, state), leaves))
            watch.check("what it does")
            if watch.summary.was_used:
                raise CannotCompile("it writes summaries while it acts")
            outputs, places = each_once(step)
            answers.append(places)
            return outputs

        inputs = nest.leaves((time_step, state))
        with traced(self._algorithm) as watch:
            graph = compile_graph(act, inputs)
        return _Compiled(lister((time_step, state)), graph, assembler(answers[0]), watch.followed)
