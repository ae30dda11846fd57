"""When and where the summaries of a run are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress
from alfish.summary.csv_file import CsvWriter
from alfish.summary.event_file import TensorBoardWriter
from alfish.summary.logger import GuardedLogger, LoggerWriter
from alfish.summary.summary import Summary
from alfish.summary.writer import ResilientWriter
from alfish.training.budget import Budget, Milestones


def make_summary(
    events: Path,
    table: Path,
    progress: Progress,
    config: TrainerConfig,
    loggers: Sequence[GuardedLogger] = (),
    prefix: str = "",
) -> Summary:
    """A summary that goes to TensorBoard, to a table, and to loggers; none of them can stop the run.

    Args:
        events: the folder of the event file.
        table: the table of iterations; that of updates, if there are any, is beside it.
        progress: of the run.
        config: the options of the run.
        loggers: opened ones.
        prefix: of all that goes to them.
    """
    updates = table.with_name("updates.csv")
    return Summary(
        [
            ResilientWriter(
                lambda: TensorBoardWriter(events, config.summaries_flush_secs, config.summary_max_queue), str(events)
            ),
            ResilientWriter(lambda: CsvWriter(table), str(table)),
            ResilientWriter(lambda: CsvWriter(updates, of_updates=True), str(updates)),
            *(LoggerWriter(logger, prefix) for logger in loggers),
        ],
        progress,
    )


class SummarySchedule:
    """Which iterations write: every `summary_interval`th, or exactly `num_summaries` over the budget.

    With `summarize_first_interval` also every iteration before the first of these.
    """

    def __init__(self, config: TrainerConfig, budget: Budget, progress: Progress) -> None:
        self._interval = config.summary_interval
        self._first_interval = config.summarize_first_interval
        self._milestones = None if config.num_summaries is None else Milestones(config.num_summaries)
        self._budget = budget
        self._progress = progress

    def next_may_write(self) -> bool:
        """Whether the iteration that is about to begin may write, so that it has to collect."""
        if self._milestones is None:
            return self._by_interval(self._progress.iterations + 1)
        fraction = self._budget.next_fraction(self._progress)
        return self._in_first(self._milestones) or self._milestones.will_pass(fraction)

    def writes(self) -> bool:
        """Whether the iteration that just ended writes; asked once after each."""
        if self._milestones is None:
            return self._by_interval(self._progress.iterations)
        first = self._in_first(self._milestones)
        return self._milestones.passed(self._progress.fraction) or first

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The moments that lie behind the resumed run do not come again."""
        if self._milestones is not None:
            self._milestones.passed(self._progress.fraction)

    def _by_interval(self, iteration: int) -> bool:
        return iteration % self._interval == 0 or (self._first_interval and iteration < self._interval)

    def _in_first(self, milestones: Milestones) -> bool:
        return self._first_interval and self._progress.fraction < 1 / milestones.count
