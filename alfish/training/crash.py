"""Asking whether a run that ends by an error shall be saved."""

from __future__ import annotations

import select
import sys
from contextlib import suppress

_SECONDS = 60.0  # to answer


def may_save(error: Exception, iteration: int, asks: bool) -> bool:
    """Whether to save. Asks at a terminal only; elsewhere, and without an answer in time, the answer is yes.

    Args:
        error: what ended the run.
        iteration: to be saved.
        asks: False: the answer is yes.
    """
    if not (asks and _is_terminal()):
        return True
    question = f"Save a checkpoint of iteration {iteration}? [Y/n; yes after {_SECONDS:g} s] "
    print(f"{type(error).__name__}: {error}\n{question}", end="", file=sys.stderr, flush=True)
    answer = ""
    with suppress(OSError):  # the terminal was closed
        if select.select([sys.stdin], [], [], _SECONDS)[0]:
            answer = sys.stdin.readline()
    return not answer.strip().lower().startswith("n")


def _is_terminal() -> bool:
    """Whether somebody can read the question and answer it."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False
