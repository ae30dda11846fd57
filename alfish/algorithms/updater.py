"""One optimizer step: from a loss to new parameters, guarded against numbers that are not finite."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from math import isfinite
from statistics import fmean
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import _engine_run_backward

from alfish import nest
from alfish.algorithms.ownership import Ownership
from alfish.algorithms.precision import Precision
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.collective import Collective, average_gradients
from alfish.errors import NumericFault
from alfish.optimizers.optimizer import step_together
from alfish.progress import Progress
from alfish.summary.gradient_noise import GradientNoise
from alfish.summary.summary import Summary
from alfish.types import LossInfo, Nest


class Updater:
    """Minimises losses with the optimizers of an algorithm tree.

    A non-finite loss or gradient never reaches the parameters: `nan_policy` decides whether the update is skipped
    or the run stops with a `NumericFault` that names the loss term.
    """

    def __init__(
        self,
        ownership: Ownership,
        progress: Progress,
        summary: Summary,
        config: TrainerConfig,
        ranks: Collective | None = None,
    ) -> None:
        self.ownership = ownership
        self.ranks = ranks or Collective()
        self.skipped = 0
        self._recent_losses: deque[float] = deque(maxlen=100)
        self._progress = progress
        self._summary = summary
        self._config = config
        self._scaler = Precision.of(config).make_scaler()
        self._gradient_noise: GradientNoise | None = None
        if config.summarize_gradient_noise_scale:
            owned = {name: list(parameters.values()) for name, parameters in ownership.parameters.items()}
            self._gradient_noise = GradientNoise(owned)

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
        share, fault = (1.0, "") if self.ranks.size == 1 else self._share(value, weight)
        if not isfinite(value):
            fault = f"the loss is {value}: {_culprits(loss_info)}"
        if fault:
            self._refuse(fault, batch)
            return False
        if share != 1.0:
            loss = total_loss(loss_info, weight, share)
        if self._gradient_noise is not None and self._summary.enabled:
            self._gradient_noise.observe(loss_info.loss, weight)
        for optimizer in self.ownership.optimizers.values():
            optimizer.zero_grad()
        _backward(loss if self._scaler is None else self._scaler.scaled(loss))
        if self._scaler is not None:
            self._scaler.unscale(self._gradients())
        if self.ranks.size > 1:
            average_gradients(self.ranks, self._parameters())
        norms = step_together(self.ownership.optimizers, self._progress)
        if self._scaler is not None and self._scaler.is_overflow(norms):
            self.skipped += 1
            return False
        return self.conclude(value, norms, (loss_info, weight), batch)

    def conclude(
        self, value: float, norms: dict[str, float], shown: tuple[LossInfo, torch.Tensor | None], batch: Nest
    ) -> bool:
        """After a step, which a number that is not finite has kept from changing anything; whether it did.

        Args:
            value: of the loss.
            norms: of the gradients, by optimizer.
            shown: the loss and the weight of its steps; the weight is for summaries.
            batch: see `update`.
        """
        loss_info, weight = shown
        if not isfinite(value):
            self._refuse(f"the loss is {value}: {_culprits(loss_info)}", batch)
            return False
        for name, norm in norms.items():
            if not isfinite(norm):
                self._refuse(f"the gradient norm of {name} is {norm} (loss {value:.6g})", batch)
                return False
        self._progress.updates += 1
        self._recent_losses.append(value)
        if self._summary.enabled and weight is not None:
            with self._summary.of_update() if self._config.update_counter_every_mini_batch else nullcontext():
                self._summarize(value, loss_info, weight, norms)
        return True

    def show_gradients(self, loss_info: LossInfo, weight: torch.Tensor) -> None:
        """Leaves the clipped gradients in the parameters, for summaries of a step that is made elsewhere."""
        if self._gradient_noise is not None:
            self._gradient_noise.observe(loss_info.loss, weight)
        for optimizer in self.ownership.optimizers.values():
            optimizer.zero_grad()
        torch.autograd.backward(total_loss(loss_info, weight))
        for optimizer in self.ownership.optimizers.values():
            optimizer.clip(optimizer.gradients())

    def _share(self, value: float, weight: torch.Tensor) -> tuple[float, str]:
        """What the mean of this rank's steps is multiplied by, and what is wrong on other ranks.

        With it, the average of the ranks is the mean over all their steps, though some have more that count.
        """
        number = weight.sum().item()
        told = self.ranks.rows([value, number])
        bad = ", ".join(f"{loss} on rank {rank}" for rank, (loss, _) in enumerate(told) if not isfinite(loss))
        total = sum(its_number for _, its_number in told)
        return self.ranks.size * max(number, 1.0) / max(total, 1.0), f"the loss is {bad}" if bad else ""

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
                    for kind, values in (("Parameters", parameter), ("Gradients", parameter.grad)):
                        if values is not None:
                            summary.histogram(f"{kind}/{name}", values)
                            summary.scalar(f"{kind}/{name}/norm", values.detach().norm())
        if self._gradient_noise is not None:
            self._gradient_noise.summarize(summary)

    def _parameters(self) -> list[nn.Parameter]:
        owned = (optimizer.named_parameters.values() for optimizer in self.ownership.optimizers.values())
        return [parameter for parameters in owned for parameter in parameters]

    def _gradients(self) -> list[torch.Tensor]:
        return [parameter.grad for parameter in self._parameters() if parameter.grad is not None]

    def state_dict(self) -> dict[str, Any]:
        scaler = None if self._scaler is None else self._scaler.state_dict()
        noise = None if self._gradient_noise is None else self._gradient_noise.state_dict()
        losses = list(self._recent_losses)
        return {"skipped": self.skipped, "recent_losses": losses, "scaler": scaler, "gradient_noise": noise}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.skipped = state["skipped"]
        self._recent_losses.extend(state["recent_losses"])
        if self._scaler is not None and state.get("scaler") is not None:
            self._scaler.load_state_dict(state["scaler"])
        if self._gradient_noise is not None:
            self._gradient_noise.load_state_dict(state.get("gradient_noise") or {})


def _backward(loss: torch.Tensor) -> None:
    """`loss.backward()` without the checks before it, which take as long as the gradient of a small layer."""
    start = torch.ones_like(loss)
    _engine_run_backward((loss,), (start,), False, False, (), allow_unreachable=True, accumulate_grad=True)


def total_loss(loss_info: LossInfo, weight: torch.Tensor, share: float = 1.0) -> torch.Tensor:
    """The weighted mean of `loss`, plus `scalar_loss`. What weights apply to is multiplied by `share`."""
    parts = []
    if not isinstance(loss_info.loss, tuple):
        mean = weighted_mean(loss_info.loss, weight)
        parts.append(mean if share == 1.0 or loss_info.loss.shape != weight.shape else mean * share)
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
