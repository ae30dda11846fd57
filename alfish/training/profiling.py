"""Where the time of the training loop goes, function by function.

profile/
  profile.txt      the functions that take longest, and who calls them
  profile.pstats   all functions, for viewers such as snakeviz, and for `python -m pstats`

torch's own profiler is not used: to collect and write the operations of two small iterations takes it minutes.
"""

from __future__ import annotations

import cProfile
import io
import logging
import pstats
from pathlib import Path

_MOST_FUNCTIONS = 50
_MOST_CALLED = 15  # whose callers are listed

_log = logging.getLogger(__name__)


class LoopProfiler:
    """Profiles what happens on this thread between `resume` and `pause`. Worker processes are not seen.

    Watching every call takes time itself: small functions look slower than they are.

    Args:
        folder: where to; made when there is something to write. None: nothing is profiled.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._profile = cProfile.Profile()
        self._is_running = False
        self._num_iterations = 0

    def resume(self) -> None:
        """An iteration begins."""
        if self._folder is None:
            return
        try:
            self._profile.enable()
        except ValueError as error:  # from Python 3.12 on there can be only one profiler
            _log.warning("TrainerConfig.profiling: no profile is written: %s", error)
            self._folder = None
            return
        self._is_running = True

    def pause(self) -> None:
        """It has ended."""
        if self._is_running:
            self._stop()
            self._num_iterations += 1

    def close(self) -> None:
        """Writes everything, also what an error has broken off. Nothing is written of no iteration."""
        is_broken_off = self._is_running
        self._stop()
        if self._folder is None or not (is_broken_off or self._num_iterations):
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._profile.dump_stats(self._folder / "profile.pstats")
            (self._folder / "profile.txt").write_text(self._text(is_broken_off), encoding="utf-8")
        except OSError as error:  # must not hide what ended the run
            _log.warning("TrainerConfig.profiling: cannot write to %s: %s", self._folder, error.strerror)

    def _stop(self) -> None:
        if self._is_running:
            self._profile.disable()
        self._is_running = False

    def _text(self, is_broken_off: bool) -> str:
        rest = " and one that was broken off" if is_broken_off else ""
        text = io.StringIO()
        stats = pstats.Stats(self._profile, stream=text)
        text.write(f"{self._num_iterations} iterations{rest}. profile.pstats holds the rest, for a viewer.\n\n")
        text.write("Functions by their own time\n")
        stats.sort_stats("tottime").print_stats(_MOST_FUNCTIONS)
        text.write("Functions with all that they call\n")
        stats.sort_stats("cumulative").print_stats(_MOST_FUNCTIONS)
        text.write("Who calls those that take longest\n")
        stats.sort_stats("tottime").print_callers(_MOST_CALLED)
        return text.getvalue()
