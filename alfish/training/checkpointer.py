"""When to save, what goes into a checkpoint, and how a run goes on from one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from alfish.algorithms.ownership import Ownership
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.errors import CheckpointError
from alfish.progress import Progress
from alfish.training.budget import Budget, Milestones
from alfish.training.checkpoint import REPLAY, Checkpoint, CheckpointFolder
from alfish.training.evaluator import Evaluated

_log = logging.getLogger(__name__)


class Stateful(Protocol):
    """A part of a run that can be saved and restored."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Checkpointer:
    """Saves the state of a run, evenly spaced and when an evaluation was the best so far, and restores it.

    Args:
        folder: where to.
        config: says how many.
        algorithm: its parameters, and its state in the run.
        ownership: the optimizers.
        progress: the counters.
        budget: what the run is to come to; after a resume it may be another than before.
        parts: whatever else belongs to the run, by name.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        config: TrainerConfig,
        algorithm: RLAlgorithm,
        ownership: Ownership,
        progress: Progress,
        budget: Budget,
        parts: Mapping[str, Stateful],
    ) -> None:
        self._folder = folder
        self._algorithm = algorithm
        self._optimizers = ownership.optimizers
        self._progress = progress
        self._budget = budget
        self._parts = parts
        self._milestones = Milestones(config.num_checkpoints)
        self._newest: Checkpoint | None = None
        self.episodes_go_on = False  # those of the checkpoint that was restored
        self._saved: set[int] = set()  # iterations, in this session
        self._best: Checkpoint | None = None
        self._recorded_best: Checkpoint | None = None  # what a run that goes on from the newest one takes for the best
        self._extra: set[Checkpoint] = set()  # saved only because it was the best

    def save_if_due(self) -> Checkpoint | None:
        """Saves when the next of `num_checkpoints` moments has come."""
        return self.save() if self._milestones.passed(self._progress.fraction) else None

    def save_best(self, evaluated: Evaluated) -> Checkpoint | None:
        """Saves what was evaluated and marks it as the best; the best one before is given up, unless it was due anyway.

        When training has gone on meanwhile, the model alone is saved.
        """
        self._best = self._folder.at(evaluated.iteration)
        saved: Checkpoint | None = None
        if evaluated.iteration == self._progress.iterations:
            if not self._milestones.passed(self._progress.fraction):
                self._extra.add(self._best)
            saved = self.save()
        elif evaluated.iteration not in self._saved:
            self._extra.add(self._best)
            saved = self._save_model(evaluated)
        self._folder.mark_best(self._best)
        self._give_up_extra()
        return saved

    def save(self) -> Checkpoint | None:
        """Saves now; None when this iteration was saved already."""
        if self._newest is not None and self._newest.iteration == self._progress.iterations:
            return None
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
        self._newest = self._folder.save(self._progress.iterations, parts, about)
        self._saved.add(self._progress.iterations)
        self._recorded_best = self._best
        self._give_up_extra()
        return self._newest

    def _give_up_extra(self) -> None:
        """Removes what was the best once."""
        for checkpoint in self._extra - {self._best, self._recorded_best}:
            self._extra.remove(checkpoint)
            self._folder.remove(checkpoint)

    def _save_model(self, evaluated: Evaluated) -> Checkpoint:
        assert evaluated.model is not None
        about = {"env_steps": evaluated.env_steps, "updates": evaluated.updates, "model_only": True}
        return self._folder.save(evaluated.iteration, {"model": evaluated.model}, about)

    def restore(self) -> Checkpoint | None:
        """Goes on from the newest checkpoint that is whole; None when there is none."""
        checkpoint = self._folder.newest()
        if checkpoint is None:
            return None
        load_model(self._algorithm, checkpoint)
        for name, state in checkpoint.load("optimizer").items():
            if name not in self._optimizers:
                raise CheckpointError(f"{checkpoint.path} holds an optimizer {name}, the configuration makes none")
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


def load_model(algorithm: RLAlgorithm, checkpoint: Checkpoint) -> None:
    """Loads the parameters; another architecture is refused with the lines that differ."""
    saved = checkpoint.load("model")
    own = algorithm.state_dict()
    differences = [f"{name}: only in the checkpoint" for name in saved if name not in own]
    differences += [f"{name}: only in the configuration" for name in own if name not in saved]
    differences += [
        f"{name}: {tuple(saved[name].shape)} in the checkpoint, {tuple(own[name].shape)} in the configuration"
        for name in own
        if name in saved and saved[name].shape != own[name].shape
    ]
    if differences:
        shown = "\n    ".join(differences[:10])
        raise CheckpointError(
            f"{checkpoint.path} holds another architecture:\n    {shown}\n"
            "Use the configuration it was trained with, or another --root_dir."
        )
    algorithm.load_state_dict(saved)
