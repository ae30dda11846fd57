"""What is done when an environment fails, and how it is said. Runs in workers: imports no torch."""

from __future__ import annotations

import logging
import traceback

from alfish.errors import EnvironmentFault

_log = logging.getLogger(__name__)

_NUM_FRAMES = 3


def raised(name: str, index: int, when: str, error: Exception) -> EnvironmentFault:
    """An error of the environment's own code, as text: exceptions of strangers do not always survive a pickle."""
    message = _message(error)
    frames = "".join(traceback.format_tb(error.__traceback__, limit=-_NUM_FRAMES)).rstrip()
    fault = EnvironmentFault(
        f"{name}: environment {index} raised {type(error).__name__}{': ' if message else ''}{message}\n"
        f"  {when}\n{frames}"
    )
    fault.__cause__ = error
    return fault


def returned(name: str, index: int, when: str, what: str) -> EnvironmentFault:
    """An environment returned what it must not."""
    return EnvironmentFault(f"{name}: environment {index} returned {what}\n  {when}")


def _message(error: Exception) -> str:
    try:
        return str(error).strip()
    except Exception:  # of a stranger, too
        return "(its message cannot be shown)"


class Restarts:
    """Decides whether a fault ends the run or the environment is rebuilt.

    Args:
        allowed: how many faults may be mended so, over all environments; 0: none, every fault ends the run.
    """

    def __init__(self, allowed: int = 0) -> None:
        self._allowed = allowed
        self.count = 0

    @property
    def are_used_up(self) -> bool:
        """Whether the next fault ends the run."""
        return self.count == self._allowed

    def permit(self, fault: EnvironmentFault) -> None:
        """Counts one more and says so, or raises the fault."""
        if not self._allowed:
            raise fault
        if self.are_used_up:
            raise EnvironmentFault(
                f"{fault}\n  Environments were restarted {self.count} times already, as often as "
                "create_environment.max_env_restarts allows."
            )
        self.count += 1
        _log.warning("%s\n  It is restarted (%d of at most %d times).", fault, self.count, self._allowed)
