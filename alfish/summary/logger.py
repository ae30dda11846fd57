"""Loggers: further places that the numbers of a run go to, besides TensorBoard and CSV.

A logger is any object with a method `write`. It may also have `open`, `close`, and both `state_dict` and
`load_state_dict`; see `Logger`. One of a user's own, bound as `TrainerConfig.loggers = [@MyLogger()]`:

    @alfish.configurable
    class MyLogger:
        def write(self, moment, values):
            print(moment.env_steps, values.get("Metrics/AverageReturn"))
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from alfish.config.problems import ConfigProblems, Problem
from alfish.errors import AlfishError
from alfish.summary.writer import Moment

_log = logging.getLogger(__name__)


class Logger(Protocol):
    """What a logger does. All but `write` may be missing, and what it raises is warned of once."""

    def write(self, moment: Moment, values: Mapping[str, float]) -> None:
        """Numbers by their tag, as in TensorBoard; the tags of evaluations begin with `eval/`."""

    def open(self, folder: Path) -> None:
        """Called once before everything else, with the folder of the run; an `AlfishError` refuses the run."""

    def close(self) -> None:
        """Called once, at the end of the run."""

    def state_dict(self) -> dict[str, Any]:
        """Taken with every checkpoint; what JSON can hold."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Called between `open` and the first `write` of a run that goes on: later writes of then come again."""


class GuardedLogger:
    """Passes everything on to a logger. Whatever that raises is logged once, and the run goes on."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._name = type(logger).__name__
        self._has_warned = False
        self._is_closed = False

    def open(self, folder: Path) -> None:
        if hasattr(self._logger, "open"):
            self._try("open", lambda: self._logger.open(folder))

    def write(self, moment: Moment, values: Mapping[str, float]) -> None:
        self._try("write", lambda: self._logger.write(moment, values))

    def close(self) -> None:
        """Calling it twice is fine."""
        if not self._is_closed and hasattr(self._logger, "close"):
            self._try("close", self._logger.close)
        self._is_closed = True

    def state_dict(self) -> dict[str, str]:
        """As text: what a checkpoint could not read again must not get into one."""
        if not hasattr(self._logger, "state_dict"):
            return {}
        state: dict[str, str] = {}
        self._try("state_dict", lambda: state.update({self._name: json.dumps(self._logger.state_dict())}))
        return state

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Nothing happens when it is the state of another kind of logger."""
        text = state.get(self._name)
        if text is not None and hasattr(self._logger, "load_state_dict"):
            self._try("load_state_dict", lambda: self._logger.load_state_dict(json.loads(text)))

    def _try(self, method: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:  # a user's logger may raise anything
            if method == "open" and isinstance(error, AlfishError):
                raise
            if not self._has_warned:
                self._has_warned = True
                _log.warning(
                    "%s.%s: %s: %s. Training goes on; this logger may miss numbers, which TensorBoard and CSV have",
                    *(self._name, method, type(error).__name__, error),
                )


def open_loggers(loggers: Sequence[Any], folder: Path) -> list[GuardedLogger]:
    """Opens the loggers of a run.

    Raises:
        ConfigProblems: one of them is no logger.
    """
    useless = [type(logger).__name__ for logger in loggers if not callable(getattr(logger, "write", None))]
    if useless:
        message = f"{', '.join(useless)} has no method write(moment, values). JsonlLogger and WandbLogger have"
        raise ConfigProblems([Problem(("TrainerConfig.loggers",), message)])
    guarded = [GuardedLogger(logger) for logger in loggers]
    for logger in guarded:
        logger.open(folder)
    return guarded


class LoggerWriter:
    """A logger as a place for summaries, of which it takes the numbers.

    Args:
        logger: where to.
        prefix: of every tag. Only the writer without one closes the logger and saves its state.
    """

    def __init__(self, logger: GuardedLogger, prefix: str = "") -> None:
        self._logger = logger
        self._prefix = prefix

    def scalars(self, moment: Moment, values: Mapping[str, float]) -> None:
        self._logger.write(moment, {f"{self._prefix}{tag}": value for tag, value in values.items()})

    def text(self, moment: Moment, tag: str, text: str) -> None:
        """Loggers take numbers."""

    def histogram(self, moment: Moment, tag: str, values: npt.NDArray[np.float64]) -> None:
        """Loggers take numbers."""

    def poll(self) -> None:
        """Nothing waits."""

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        if not self._prefix:
            self._logger.close()

    def state_dict(self) -> dict[str, Any]:
        return {} if self._prefix else self._logger.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if not self._prefix:
            self._logger.load_state_dict(state)
