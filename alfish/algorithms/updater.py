"""One optimizer step: from a loss to new parameters, guarded against numbers that are not finite."""

from __future__ import annotations

from collections import deque
from math import isfinite
from statistics import fmean
from typing import Any

import torch

from alfish import nest
from alfish.algorithms.ownership import Ownership
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.errors import NumericFault
from alfish.optimizers.optimizer import step_together
from alfish.progress import Progress
from alfish.summary.summary import Summary
from alfish.types import LossInfo, Nest


class Updater:
    """Minimises losses with the optimizers of an algorithm tree.

    A non-finite loss or gradient never reaches the parameters: `nan_policy` decides whether the update is skipped
    or the run stops with a `NumericFault` that names the loss term.
    """

    def __init__(self, ownership: Ownership, progress: Progress, summary: Summary, config: TrainerConfig) -> None:
        self.ownership = ownership
        self.skipped = 0
        self._recent_losses: deque[float] = deque(maxlen=100)
        self._progress = progress
        self._summary = summary
        self._config = config

    @property
    def average_loss(self) -> float | None:
        """Mean of the last 100 finite losses."""
        return fmean(self._recent_losses) if self._recent_losses else None

    def update(self, loss_info: LossInfo, weight: torch.Tensor, batch: Nest) -> bool:
        """One step down the gradient; whether it was made.

        Args:
            loss_info: `loss` is `[T, B]`; its weighted mean plus `scalar_loss` is minimised.
            weight: `[T, B]`; 0 for steps that do not count, such as those whose action was ignored.
            batch: what the loss was computed from, for the dump when it is not finite.
        """
        loss = total_loss(loss_info, weight)
        value = loss.item()
        if not isfinite(value):
            self._refuse(f"the loss is {value}: {_culprits(loss_info)}", batch)
            return False
        for optimizer in self.ownership.optimizers.values():
            optimizer.zero_grad()
        torch.autograd.backward(loss)
        norms = step_together(self.ownership.optimizers, self._progress)
        for name, norm in norms.items():
            if not isfinite(norm):
                self._refuse(f"the gradient norm of {name} is {norm} (loss {value:.6g})", batch)
                return False
        self._progress.updates += 1
        self._recent_losses.append(value)
        if self._summary.enabled:
            self._summarize(value, loss_info, weight, norms)
        return True

    def _refuse(self, what: str, batch: Nest) -> None:
        if self._config.nan_policy == "stop":
            raise NumericFault(
                f"iteration {self._progress.iterations}, update {self._progress.updates}: {what}. The parameters are "
                "as before this update. Try a smaller learning rate or gradient_clipping; "
                "TrainerConfig.nan_policy = 'skip' goes on without such updates.",
                batch,
            )
        self.skipped += 1

    def _summarize(self, value: float, loss_info: LossInfo, weight: torch.Tensor, norms: dict[str, float]) -> None:
        summary = self._summary
        with summary.scope("Loss"):
            summary.scalar("loss", value)
            for name, part in nest.named_leaves(loss_info.extra).items():
                summary.scalar(name, weighted_mean(part.detach(), weight))
        with summary.scope("Optimizer"):
            for name, optimizer in self.ownership.optimizers.items():
                summary.scalar(f"{name}/gradient_norm", norms[name])
                summary.scalar(f"{name}/learning_rate", optimizer.current_lr(self._progress))
            summary.scalar("skipped_updates", self.skipped)
        if self._config.summarize_grads_and_vars:
            for owned in self.ownership.parameters.values():
                for name, parameter in owned.items():
                    summary.histogram(f"Parameters/{name}", parameter)
                    summary.histogram(f"Gradients/{name}", parameter.grad)

    def state_dict(self) -> dict[str, Any]:
        return {"skipped": self.skipped, "recent_losses": list(self._recent_losses)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.skipped = state["skipped"]
        self._recent_losses.extend(state["recent_losses"])


def total_loss(loss_info: LossInfo, weight: torch.Tensor) -> torch.Tensor:
    """The weighted mean of `loss`, plus `scalar_loss`."""
    parts = []
    if not isinstance(loss_info.loss, tuple):
        parts.append(weighted_mean(loss_info.loss, weight))
    if not isinstance(loss_info.scalar_loss, tuple):
        parts.append(loss_info.scalar_loss)
    return torch.stack(parts).sum() if len(parts) > 1 else parts[0]


def weighted_mean(value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The mean of `[T, B]` values; a value of any other shape is averaged without weights."""
    if value.shape != weight.shape:
        return value.mean()
    return (value * weight).sum() / weight.sum().clamp(min=1)


def _culprits(loss_info: LossInfo) -> str:
    named = nest.named_leaves(loss_info.extra)
    bad = [name for name, part in named.items() if not torch.isfinite(part).all()]
    return f"{', '.join(bad)} is not finite" if bad else "no single part of it is to blame"
