"""How a run starts: anew, with parameters of another run, or where it was; and what is different from then."""

from __future__ import annotations

import torch

from alfish import config as gin_config
from alfish.errors import CheckpointMisfit
from alfish.training.checkpoint import Checkpoint
from alfish.training.checkpointer import Checkpointer
from alfish.training.option_history import OptionChange, OptionHistory, change_lines, option_changes
from alfish.training.run_folder import RunFolder
from alfish.training.task import Task
from alfish.training.threads import is_same_machine
from alfish.training.transfer import Transferred, TransferSource, transfer


class RunStart:
    """Compares what the run folder remembers with what is about to start there, before anything new is written.

    Args:
        folder: of the run.
        task: what it learns from, and who learns.
    """

    def __init__(self, folder: RunFolder, task: Task) -> None:
        self.changes = _option_changes(folder)  # since the last start
        self.transferred: Transferred | None = None
        self._folder = folder
        self._task = task
        self._then = folder.read_run()
        self._now = {"algorithm": type(task.algorithm).__name__, **task.identity()}
        self._resumed: Checkpoint | None = None
        self._episodes_go_on = False
        self._ignored: str | None = None

    @property
    def is_new(self) -> bool:
        """Whether the run did not go on from a checkpoint of its own."""
        return self._resumed is None

    @property
    def iteration(self) -> int:
        return self._resumed.iteration if self._resumed else 0

    def restore(self, checkpointer: Checkpointer, init_from: str | None) -> None:
        """Goes on from the newest checkpoint, if there is one.

        Args:
            checkpointer: of the run.
            init_from: `RUN[@step|@best][:prefix]`, for a new run only: whoever starts a run with one command again and
                again means its beginning.
        """
        try:
            if self._folder.checkpoints.all():
                self._refuse_another_task()
            self._resumed = checkpointer.restore()
        except CheckpointMisfit as misfit:
            raise CheckpointMisfit(f"{misfit}\n{self._behind_a_misfit()}") from misfit
        self._episodes_go_on = checkpointer.episodes_go_on
        if self._resumed is not None:
            self._ignored = init_from
        elif init_from is not None:
            self.transferred = transfer(TransferSource.parse(init_from), self._task.algorithm)

    def words(self) -> list[str]:
        """What to tell about it; nothing of a run that is simply new."""
        if self._resumed is None:
            return [str(self.transferred)] if self.transferred else []
        how = self._task.resumption(self._episodes_go_on)
        words = [f"going on from iteration {self._resumed.iteration}, {how}"]
        for what, now in self._task.facts().items():
            before, things = self._then.get(what, now), what.removeprefix("num_")
            if before != now:
                words.append(f"{before} {things} before, {now} now: not to the bit what it would have been")
        words += self._other_numbers()
        if self.changes:
            words.append(f"options that were changed:{change_lines(self.changes)}")
        if self._ignored is not None:
            words.append(f"--init_from={self._ignored}: no effect, the run has begun already")
        return words

    def _other_numbers(self) -> list[str]:
        now = torch.get_num_threads()
        before = self._then.get("torch_threads", now)
        if before != now:
            return [
                f"{before} torch thread(s) before, {now} now: not to the bit what it would have been. "
                f"TrainerConfig.num_threads={before} keeps them"
            ]
        if not is_same_machine(self._then):
            return ["on another machine than before: perhaps not to the bit what it would have been"]
        return []

    def _refuse_another_task(self) -> None:
        """The parameters might fit all the same, but curves, best score and replay would be of two different things."""
        then = [f"{what} {self._then[what]}" for what, now in self._now.items() if self._then.get(what, now) != now]
        if then:
            raise CheckpointMisfit(
                f"{self._folder.path} was trained with {' and '.join(then)}; this is {' on '.join(self._now.values())}"
            )

    def _behind_a_misfit(self) -> str:
        lines = [f"Options that it was not trained with:{change_lines(self.changes)}"] if self.changes else []
        return "\n".join([*lines, f"A new run begins with what fits: --root_dir=NEW --init_from={self._folder.path}"])


def _option_changes(folder: RunFolder) -> list[OptionChange]:
    before = OptionHistory(folder).current()
    if before is None or gin_config.current() is None:
        return []
    return option_changes(before, gin_config.operative_text(), folder.read_seed())
