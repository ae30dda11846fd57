"""Hooks: user code at fixed moments of a run.

A hook is any object with some of the methods below; each is given a context.

    class PrintReturn:
        def on_epoch_end(self, context: EpochContext) -> None:
            print(context.stats.mean_return)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems, Problem
from alfish.progress import Progress
from alfish.training.results import AnyEvalResult, EpochStats, TrainResult
from alfish.training.task import RootAlgorithm


@dataclass(frozen=True)
class Context:
    """Given to on_train_start, on_iteration_end and on_eval_start."""

    algorithm: RootAlgorithm
    config: TrainerConfig
    progress: Progress


@dataclass(frozen=True)
class EpochContext(Context):
    """Given to on_epoch_end."""

    stats: EpochStats


@dataclass(frozen=True)
class EvalContext(Context):
    """Given to on_eval_end."""

    result: AnyEvalResult


@dataclass(frozen=True)
class CheckpointContext(Context):
    """Given to on_checkpoint."""

    path: Path


@dataclass(frozen=True)
class EndContext(Context):
    """Given to on_train_end."""

    result: TrainResult


MOMENTS = {
    "on_train_start": Context,
    "on_iteration_end": Context,
    "on_epoch_end": EpochContext,
    "on_eval_start": Context,
    "on_eval_end": EvalContext,
    "on_checkpoint": CheckpointContext,
    "on_train_end": EndContext,
}


class Hooks:
    """The hooks of a run, looked up once."""

    def __init__(
        self, hooks: Sequence[Any], algorithm: RootAlgorithm, config: TrainerConfig, progress: Progress
    ) -> None:
        self._common = (algorithm, config, progress)
        self._methods = {moment: [getattr(h, moment) for h in hooks if hasattr(h, moment)] for moment in MOMENTS}
        useless = [type(hook).__name__ for hook in hooks if not any(hasattr(hook, moment) for moment in MOMENTS)]
        if useless:
            message = f"{', '.join(useless)} has none of the methods {', '.join(MOMENTS)}"
            raise ConfigProblems([Problem(("TrainerConfig.hooks",), message)])

    def call(self, moment: str, *details: Any) -> None:
        """Calls every hook that has the method `moment`."""
        methods = self._methods[moment]
        if methods:
            context = MOMENTS[moment](*self._common, *details)
            for method in methods:
                method(context)
