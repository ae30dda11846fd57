"""Several critics, their targets and their loss: what DDPG, TD3, SAC and SARSA share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import nn

from alfish import nest, specs
from alfish.algorithms.on_policy import counts
from alfish.algorithms.target_update import TargetUpdater
from alfish.algorithms.td_loss import Correction, TDLoss, as_sequence, mean_of_trained
from alfish.errors import ConfigError
from alfish.networks.ensemble import Ensemble
from alfish.networks.full_precision import full_precision
from alfish.networks.network import Network
from alfish.specs import TensorSpec
from alfish.summary.summary import Summary
from alfish.types import Experience, Nest, TimeStep, record


@record
class CriticLoss:
    """What the critics learn from a batch of sequences."""

    loss: torch.Tensor  # [T, B], summed over critics and rewards; 0 for actions that are not trained
    priority: torch.Tensor  # [B], the root of the mean loss of the actions that count
    value: torch.Tensor  # [N, trained, B] or [N, trained, B, R], of the critics
    target: torch.Tensor  # [trained, B] or [trained, B, R]


class Critics(nn.Module):
    """`number` critics of independent initialisation, and a slowly moving copy of each.

    Values have the critics in front: `[N, ...]`, or `[N, ..., R]` for a vector reward.

    Args:
        make: makes one critic.
        number: N.
        reward_spec: `()`-shaped, or `(R,)`.
        reward_weights: of the R rewards in what is maximised; None weighs them equally, by 1.
        loss: the targets and the loss of an error.
        tau: share of the critics in their targets, at every move.
        period: updates between moves of the targets.
    """

    weights: torch.Tensor

    def __init__(
        self,
        make: Callable[[], Network],
        number: int,
        reward_spec: TensorSpec,
        reward_weights: Sequence[float] | None,
        loss: TDLoss,
        tau: float,
        period: int,
    ) -> None:
        super().__init__()
        self.online = Ensemble(make, number)
        self.target = deepcopy(self.online)
        self._online_parameters = list(self.online.parameters())
        self.state_spec = self.online.state_spec
        self._updater = TargetUpdater(self.online, self.target, tau, period)
        self._loss = loss
        self._is_vector = reward_spec.shape != ()
        self.register_buffer("weights", checked_weights(reward_weights, reward_spec), persistent=False)

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """What is maximised: the weighted sum over the rewards."""
        if not self._is_vector:
            return values
        with full_precision(values):
            return values @ self.weights

    def spread(self, total: torch.Tensor) -> torch.Tensor:
        """A bonus as part of every reward such that `total` counts it once."""
        share = self.weights / self.weights.dot(self.weights)
        return total.unsqueeze(-1) * share if self._is_vector else total

    def lowest(self, values: torch.Tensor) -> torch.Tensor:
        """Of N values the one whose total is least: clipped double Q-learning (Fujimoto et al. 2018, eq. 10)."""
        if len(values) == 1:
            return values[0]
        if not self._is_vector:
            return values.amin(0)
        chosen = self.total(values).argmin(0, keepdim=True).unsqueeze(-1)
        return values.gather(0, chosen.expand(1, *values.shape[1:])).squeeze(0)

    @torch.no_grad()
    def judge(self, inputs: Nest) -> Nest:
        """What the lowest critic says of one step; () for critics with memory, which one step says little to."""
        return () if self.state_spec else self.total(self.lowest(self.online(inputs)[0]))

    @contextmanager
    def frozen(self) -> Iterator[Ensemble]:
        """The critics, for a loss of the actor: gradients flow through them, and none is computed for them."""
        trained = [parameter for parameter in self._online_parameters if parameter.requires_grad]
        for parameter in trained:
            parameter.requires_grad_(False)
        try:
            yield self.online
        finally:
            for parameter in trained:
                parameter.requires_grad_(True)

    def loss(
        self,
        time_step: TimeStep,
        value: torch.Tensor,
        next_value: torch.Tensor,
        correction: Correction | None = None,
    ) -> CriticLoss:
        """
        Args:
            time_step: `T + 1` rows.
            value: `[N, T, B]` or `[N, T, B, R]`, of the actions that were taken, with gradient.
            next_value: `[T, B]` or `[T, B, R]`, of the time steps after them.
            correction: for a loss that needs one.
        """
        target = self._loss.target(time_step, next_value, correction)
        if value.size(1) > target.size(0):
            value = value[:, : target.size(0)]
        errors = self._loss(value, target)
        rows = errors.sum((0, -1)) if self._is_vector else errors.sum(0)
        valid = counts(time_step)[:-1]
        trained = valid[: len(rows)]
        with torch.no_grad():
            priority = mean_of_trained(rows, trained).sqrt()
        return CriticLoss(as_sequence(rows, valid), priority, value, target)

    @property
    def targets_move_next(self) -> bool:
        """Whether the next `update_targets` moves them."""
        return self._updater.is_due

    def update_targets(self) -> None:
        self._updater.step()


def checked_weights(given: Sequence[float] | None, reward_spec: TensorSpec) -> torch.Tensor:
    """A weight for each reward, 1 unless given."""
    weights = [1.0] * reward_spec.numel if given is None else list(given)
    if len(weights) != reward_spec.numel or not any(weights):
        raise ConfigError(
            f"reward_weights = {tuple(weights)}: the reward has shape {reward_spec.shape}, so "
            f"{reward_spec.numel} weights are needed, not all of them 0"
        )
    return torch.tensor(weights)


def first_state(state_spec: Nest, experience: Experience) -> Nest:
    """The memory `[B, ...]` with which the sequences begin: what was stored, else zeros; () when there is none."""
    step_type = experience.time_step.step_type
    stored = nest.index(experience.state, 0)
    return stored or specs.zeros(state_spec, step_type.shape[1], device=step_type.device)


def summarize_critics(summary: Summary, loss: CriticLoss) -> None:
    """For `debug_summaries`."""
    if summary.enabled:
        with summary.scope("Debug"):
            summary.histogram("critic/value", loss.value)
            summary.histogram("critic/target", loss.target)
            summary.scalar("critic/value", loss.value)
            summary.scalar("critic/disagreement", loss.value.std(0, correction=0))
            summary.histogram("priority", loss.priority)
