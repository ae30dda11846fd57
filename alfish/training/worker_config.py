"""The configuration of a run on its way into a worker process."""

from __future__ import annotations

import pickle
from copy import copy
from dataclasses import dataclass
from typing import Any

import gin

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.carry import Carried, carried
from alfish.config.gin_state import current
from alfish.config.problems import ConfigProblems, Problem
from alfish.config.record import Config

# What the trainer alone does; a hook made a second time in a worker could open its files a second time.
_NOT_FOR_WORKERS: dict[str, Any] = {
    "hooks": (),
    "loggers": (),
    "stop_condition": None,
    "score_fn": None,
    "evaluate_upon_training_success": False,
}


@dataclass(frozen=True)
class WorkerConfig:
    """Picklable; `install` it in the worker.

    Args:
        bindings: all that gin has bound.
        options: a pickled `TrainerConfig` that was made in Python; None: gin makes it.
        conf_file: what gin does not know of it.
    """

    bindings: Carried
    options: bytes | None
    conf_file: str = ""

    @classmethod
    def of(cls, config: TrainerConfig, from_gin: bool, switch: str) -> WorkerConfig:
        """The configuration of this process.

        Args:
            config: the options of the run.
            from_gin: gin makes an equal one in the worker.
            switch: the option that asks for a worker, for messages.

        Raises:
            ConfigProblems: something was made in Python that cannot be sent.
        """
        # Bindings may have been made without a file.
        bindings = carried(current() or Config((), (), (), ()))
        if from_gin:
            return cls(bindings, None, config.conf_file)
        options = copy(config)
        for name, value in _NOT_FOR_WORKERS.items():
            object.__setattr__(options, name, value)  # `replace` would call gin
        problems = [
            Problem(
                (f"TrainerConfig.{name}",), f"cannot be sent to a worker process: {trouble}. {_ADVICE} {switch}=False"
            )
            for name in sorted(options.non_default())
            if (trouble := _trouble(getattr(options, name)))
        ]
        if problems:
            raise ConfigProblems(problems)
        return cls(bindings, pickle.dumps(options))

    def install(self) -> TrainerConfig:
        """Gives gin the bindings, in the worker, and returns the options."""
        self.bindings.install()
        if self.options is None:
            with gin.unlock_config():  # given as arguments, gin would still make what is bound
                for name, value in _NOT_FOR_WORKERS.items():
                    gin.bind_parameter(f"TrainerConfig.{name}", value)
            return TrainerConfig(conf_file=self.conf_file)
        config: TrainerConfig = pickle.loads(self.options)  # noqa: S301, of our own parent
        return config


_ADVICE = "Give it by gin, or use what a module defines by name, or set"


def _trouble(value: Any) -> str:
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        return str(error)
    return ""
