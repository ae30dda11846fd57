"""When to save, what goes into a checkpoint, and how a run goes on from one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from alfish.algorithms.ownership import Ownership
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.errors import CheckpointMisfit, StorageFault
from alfish.progress import Progress
from alfish.training.budget import Budget, Milestones
from alfish.training.checkpoint import REPLAY, Checkpoint, CheckpointFolder
from alfish.training.checkpoint_writer import CheckpointWriter
from alfish.training.evaluator import Evaluated
from alfish.training.task import RootAlgorithm

_MAX_FAILURES = 3  # in a row
_RETRY_SECONDS = 60.0
_LAST_PATIENCE = 10.0  # seconds that a run which ends by an error waits for what is being written

_log = logging.getLogger(__name__)


class Stateful(Protocol):
    """A part of a run that can be saved and restored."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class _Saving:
    """A checkpoint that is being written."""

    checkpoint: Checkpoint
    is_model_only: bool
    evaluated: Evaluated | None  # what was the best when the write began, with its model; None: it is another one
    best: Checkpoint | None  # as it will remember it
    best_before: Checkpoint | None


class Checkpointer:
    """Saves the state of a run, evenly spaced and when an evaluation was the best so far, and restores it.

    Training goes on while a checkpoint is written; the next one waits for it. A checkpoint that cannot be written is
    warned of, and tried again after a minute or when the next one is due; the third failure of whole ones in a row is
    raised.

    Args:
        folder: where to.
        config: says how many.
        algorithm: its parameters, and its state in the run.
        ownership: the optimizers.
        progress: the counters.
        budget: what the run is to come to; after a resume it may be another than before.
        parts: whatever else belongs to the run, by name.
        announce: called with the path of every checkpoint when it is whole, on the training thread.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        config: TrainerConfig,
        algorithm: RootAlgorithm,
        ownership: Ownership,
        progress: Progress,
        budget: Budget,
        parts: Mapping[str, Stateful],
        announce: Callable[[Path], None] = lambda path: None,
    ) -> None:
        self._folder = folder
        self._algorithm = algorithm
        self._optimizers = ownership.optimizers
        self._progress = progress
        self._budget = budget
        self._parts = parts
        self._announce = announce
        self._milestones = Milestones(config.num_checkpoints)
        self._writer = CheckpointWriter(folder)
        self._saving: _Saving | None = None
        self._num_failures = 0  # of whole checkpoints, in a row
        self._retry_at: float | None = None
        self._newest: Checkpoint | None = None
        self.episodes_go_on = False  # those of the checkpoint that was restored
        self._saved: set[int] = set()  # iterations, in this session
        self._best: Checkpoint | None = None
        self._recorded_best: Checkpoint | None = None  # what a run that goes on from the newest one takes for the best
        self._extra: set[Checkpoint] = set()  # saved only because it was the best
        self._unsaved_best: Evaluated | None = None  # since the disk failed

    def save_if_due(self) -> None:
        """Saves when the next of `num_checkpoints` moments has come, or when it is time to try again."""
        self._settle(wait=False)
        is_retried = self._retry_at is not None and time.monotonic() >= self._retry_at
        if self._milestones.passed(self._progress.fraction) or is_retried:
            self.save()

    def save_best(self, evaluated: Evaluated) -> None:
        """Saves what was evaluated and marks it as the best; the best one before is given up, unless it was due anyway.

        When training has gone on meanwhile, the model alone is saved.
        """
        self._settle()
        self._unsaved_best = None
        before, self._best = self._best, self._folder.at(evaluated.iteration)
        if evaluated.iteration == self._progress.iterations and not self._is_saved():
            if not self._milestones.passed(self._progress.fraction):
                self._extra.add(self._best)
            self._save_run(before)
        elif evaluated.iteration not in self._saved:
            self._extra.add(self._best)
            self._save_model(evaluated, before)
        else:
            self._mark_best()

    def save(self) -> None:
        """Saves now, unless this iteration was saved already."""
        self._settle()
        unsaved = self._unsaved_best
        if unsaved is not None:  # before the run, which remembers what is the best
            self.save_best(unsaved)
            if unsaved.iteration == self._progress.iterations:
                return  # with it the run is saved
            self._settle()
        if not self._is_saved():
            self._save_run(self._best)

    def finish(self) -> None:
        """Waits until everything is written. At the end of a run nobody tries again, so a failure is raised."""
        fault = self._take_end(wait=True)
        if fault is not None:
            lost = f"What was learned after iteration {self._newest.iteration}" if self._newest else "All of the run"
            raise StorageFault(f"{fault}. {lost} is lost") from fault

    def close(self) -> None:
        """Waits a moment for what is being written, if a run ends by an error."""
        if self._saving is None:
            return
        try:
            if self._writer.has_ended(_LAST_PATIENCE):
                self._succeed(self._saving)
            else:
                _log.warning("%s is not waited for any longer", self._saving.checkpoint.path)
        except StorageFault as fault:
            _log.warning("%s", fault)
        self._saving = None

    def _is_saved(self) -> bool:
        return self._newest is not None and self._newest.iteration == self._progress.iterations

    def _save_run(self, best_before: Checkpoint | None) -> None:
        parts = {
            "model": self._algorithm.state_dict(),
            "optimizer": {name: optimizer.state_dict() for name, optimizer in self._optimizers.items()},
            "state": {
                "progress": self._progress.state_dict(),
                "algorithm": self._algorithm.run_state(),
                "best": (self._best.iteration if self._best else None, self._best in self._extra),
                **{name: part.state_dict() for name, part in self._parts.items()},
            },
        }
        replay = self._algorithm.replay
        if replay is not None and replay.belongs_in_checkpoint:
            parts[REPLAY] = replay.state_dict()
        about = {"env_steps": self._progress.env_steps, "updates": self._progress.updates}
        self._begin(self._progress.iterations, parts, about, best_before)

    def _save_model(self, evaluated: Evaluated, best_before: Checkpoint | None) -> None:
        assert evaluated.model is not None
        about = {"env_steps": evaluated.env_steps, "updates": evaluated.updates, "model_only": True}
        self._begin(evaluated.iteration, {"model": evaluated.model}, about, best_before)

    def _begin(
        self, iteration: int, parts: dict[str, Any], about: dict[str, Any], best_before: Checkpoint | None
    ) -> None:
        written = self._writer.begin(iteration, parts, about)
        checkpoint = self._folder.at(iteration)
        evaluated = None
        if checkpoint == self._best and written is not None:
            evaluated = Evaluated(iteration, about["env_steps"], about["updates"], written["model"])
        self._saving = _Saving(checkpoint, "model_only" in about, evaluated, self._best, best_before)

    def _settle(self, wait: bool = True) -> None:
        """Does what is to be done when a write has ended, if one has."""
        fault = self._take_end(wait)
        if fault is None:
            return
        if self._num_failures == _MAX_FAILURES:
            raise StorageFault(f"{fault}. That was failure {_MAX_FAILURES} of {_MAX_FAILURES} in a row") from fault
        count = f" (failure {self._num_failures} of {_MAX_FAILURES})" if self._num_failures else ""
        words = "%s. Training goes on; it is tried again in %g s, or when the next one is due%s"
        _log.warning(words, fault, _RETRY_SECONDS, count)

    def _take_end(self, wait: bool) -> StorageFault | None:
        """Notes how the write ended, if it has; returns what went wrong."""
        saving = self._saving
        if saving is None:
            return None
        try:
            if wait:
                self._writer.wait()
            elif not self._writer.has_ended():
                return None
        except StorageFault as fault:
            if self._writer.is_busy:  # the disk does not answer: no use in trying again
                raise
            self._fail(saving)
            return fault
        finally:
            if not self._writer.is_busy:
                self._saving = None
        self._succeed(saving)
        self._announce(saving.checkpoint.path)
        return None

    def _succeed(self, saving: _Saving) -> None:
        self._saved.add(saving.checkpoint.iteration)
        if not saving.is_model_only:
            self._num_failures = 0
            self._retry_at = None
            self._newest = saving.checkpoint
            self._recorded_best = saving.best
        if self._best == saving.checkpoint:
            self._mark_best()
        else:
            self._give_up_extra()

    def _fail(self, saving: _Saving) -> None:
        self._num_failures += not saving.is_model_only
        self._retry_at = time.monotonic() + _RETRY_SECONDS
        self._extra.discard(saving.checkpoint)
        if saving.evaluated is not None:
            self._unsaved_best = saving.evaluated
        self._best = saving.best_before

    def _mark_best(self) -> None:
        try:
            self._folder.mark_best(self._best)
        except OSError as error:  # the next checkpoint remembers it
            _log.warning("cannot mark the best checkpoint in %s: %s", self._folder.path, error.strerror)
        self._give_up_extra()

    def _give_up_extra(self) -> None:
        """Removes what was the best once."""
        for checkpoint in self._extra - {self._best, self._recorded_best}:
            self._extra.remove(checkpoint)
            self._folder.remove(checkpoint)

    def restore(self) -> Checkpoint | None:
        """Goes on from the newest checkpoint that is whole; None when there is none."""
        self._folder.sweep()
        checkpoint = self._folder.newest()
        if checkpoint is None:
            return None
        load_model(self._algorithm, checkpoint)
        for name, state in checkpoint.load("optimizer").items():
            if name not in self._optimizers:
                raise CheckpointMisfit(f"{checkpoint.path} holds an optimizer {name}, the configuration makes none")
            self._optimizers[name].load_state_dict(state)
        self._restore_state(checkpoint.load("state"))
        if self._algorithm.replay is not None:
            self._restore_replay(checkpoint)
        self._newest = checkpoint
        return checkpoint

    def _restore_state(self, state: dict[str, Any]) -> None:
        self._progress.load_state_dict(state["progress"])
        self._progress.fraction = self._budget.fraction(self._progress)
        self.episodes_go_on = self._algorithm.load_run_state(state["algorithm"])
        for name, part in self._parts.items():
            if name in state:
                part.load_state_dict(state[name])
        self._milestones.passed(self._progress.fraction)
        self._restore_best(*state["best"])

    def _restore_replay(self, checkpoint: Checkpoint) -> None:
        assert isinstance(self._algorithm, RLAlgorithm)  # others have none
        if checkpoint.has(REPLAY):
            self._algorithm.load_replay(checkpoint.load(REPLAY))
        else:
            _log.warning("the checkpoint has no replay: it fills anew, the initial collection is made again")

    def _restore_best(self, iteration: int | None, is_extra: bool) -> None:
        """A damaged checkpoint, which was not gone on from, may have been marked as the best meanwhile."""
        best = None if iteration is None else self._folder.at(iteration)
        self._best = best if best is not None and best.damage() is None else None
        self._recorded_best = self._best
        if is_extra and self._best is not None:
            self._extra.add(self._best)
        self._folder.mark_best(self._best)
        for checkpoint in self._folder.model_only():
            if checkpoint != self._best:  # it became the best after the checkpoint that the run goes on from
                self._folder.remove(checkpoint)


def load_model(algorithm: RootAlgorithm, checkpoint: Checkpoint) -> None:
    """Loads the parameters; another architecture is refused with the lines that differ."""
    saved = checkpoint.load("model")
    own = algorithm.state_dict()
    differences = [f"{name}: only in the checkpoint" for name in saved if name not in own]
    differences += [f"{name}: only in the configuration" for name in own if name not in saved]
    differences += [
        f"{name}: {_form(saved[name])} in the checkpoint, {_form(own[name])} in the configuration"
        for name in own
        if name in saved and (saved[name].shape, saved[name].dtype) != (own[name].shape, own[name].dtype)
    ]
    if differences:
        shown = "\n    ".join(differences[:10])
        raise CheckpointMisfit(
            f"{checkpoint.path} holds another architecture:\n    {shown}\n"
            "Use the configuration it was trained with, or another --root_dir."
        )
    algorithm.load_state_dict(saved)


def _form(tensor: torch.Tensor) -> str:
    """Its shape, and its type where that is not the usual one."""
    form = f"{tuple(tensor.shape)}"
    return form if tensor.dtype == torch.float32 else f"{form} {str(tensor.dtype).removeprefix('torch.')}"
