"""An epoch that is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alfish.training.results import EpochStats

if TYPE_CHECKING:
    from alfish.training.trainer import Trainer


class Epoch:
    """Remembers where an epoch began, to say what happened in it."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._before = (vars(trainer.progress) | {}, trainer.timers.seconds())

    def finish(self) -> EpochStats:
        trainer = self._trainer
        before, seconds_before = self._before
        progress = vars(trainer.progress)
        done = {name: progress[name] - before[name] for name in ("iterations", "env_steps", "updates", "episodes")}
        metrics = trainer.algorithm.metrics.results()
        stats = EpochStats(
            epoch=trainer.epoch,
            **done,
            mean_return=trainer.algorithm.metrics.average_return,
            mean_length=metrics.get("AverageEpisodeLength"),
            loss=trainer.algorithm.loop.updater.average_loss,
            evaluation=trainer.result.evaluation,
            seconds={name: value - seconds_before.get(name, 0.0) for name, value in trainer.timers.seconds().items()},
        )
        trainer.hooks.call("on_epoch_end", stats)
        return stats
