"""Running a command: exit codes and error messages in place of tracebacks."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence

from alfish.errors import AlfishError

DEBUG_VARIABLE = "ALFISH_DEBUG"
_INTERRUPTED = 130
_GIN_SUFFIX = "\n  In call to configurable"


def run(main: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Calls `main` with the arguments and returns the exit code of the process.

    An `AlfishError` is printed as one message, without traceback unless ALFISH_DEBUG=1. Any other exception is a
    bug: it keeps its traceback, without the frames of gin's wrappers.
    """
    try:
        with _log_to_stderr():
            code = main(sys.argv[1:] if argv is None else argv) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except AlfishError as error:
        if os.environ.get(DEBUG_VARIABLE) == "1":
            traceback.print_exc()
        print(f"error: {message_of(error)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:
        _print_bug(error)
        return 1


def message_of(error: AlfishError) -> str:
    """The message of an error, with where its options were set, and without what gin's wrappers append."""
    from alfish.config.gin_state import current
    from alfish.config.problems import ConfigProblems
    from alfish.config.report import format_problems

    if isinstance(error, ConfigProblems):
        return format_problems(error.problems, current())
    return str(error).partition(_GIN_SUFFIX)[0]


def _print_bug(error: Exception) -> None:
    report = traceback.TracebackException.from_exception(error)
    if os.environ.get(DEBUG_VARIABLE) != "1":
        wrappers = (os.path.join("gin", "config.py"), os.path.join("gin", "utils.py"))
        frames = [frame for frame in report.stack if not frame.filename.endswith(wrappers)]
        report.stack = traceback.StackSummary.from_list(frames)
    print("".join(report.format()), end="", file=sys.stderr)


class _StderrHandler(logging.Handler):
    """Writes to whatever sys.stderr is now, `warning: ...` for warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        # A message that cannot be shown is no reason to stop a run.
        with contextlib.suppress(OSError, ValueError):
            print(f"{prefix}{record.getMessage()}", file=sys.stderr)


@contextlib.contextmanager
def _log_to_stderr() -> Iterator[None]:
    log = logging.getLogger("alfish")
    before = (log.level, log.propagate)
    handler = _StderrHandler()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]
