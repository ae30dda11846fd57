"""The loss of advantage actor-critic methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch

from alfish import nest
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.losses.policy_gradient import normalize_advantages, policy_gradient_loss, squared
from alfish.losses.value_ops import discounted_return, td_lambda
from alfish.optimizers.schedulers import Scheduler, as_scheduler, is_zero
from alfish.progress import Progress
from alfish.types import LossInfo, Nest, TimeStep, record


@record
class ActorCriticInfo:
    """What the loss needs to know about a step; `[T, B, ...]`."""

    action: Nest
    action_distribution: Nest  # with gradient in training
    value: Any = ()  # [T, B] or [T, B, R], with gradient in training
    advantage: Any = ()  # [T, B]
    target: Any = ()  # what the value should be, of its shape
    valid: Any = ()  # [T, B], 0 where the environment ignored the action
    old_log_prob: Any = ()  # [T, B], of the action when it was taken
    old_value: Any = ()  # the value when it was taken


@configurable
class ActorCriticLoss:
    """Policy gradient weighted by advantages, squared value error, entropy bonus (Mnih et al. 2016).

    Args:
        gamma: discount of future rewards.
        td_lambda: the lambda of GAE (Schulman et al. 2016) and of the TD(lambda) return; 1 is the bootstrapped return.
        use_gae: advantages by GAE; else bootstrapped return minus value.
        use_td_lambda_return: the value learns the TD(lambda) return; else the bootstrapped return.
        td_loss_weight: weight of the squared value error.
        normalize_advantages: to mean 0 and standard deviation 1 in every mini batch.
        advantage_clip: limit of the advantage's magnitude; None: no limit.
        entropy_regularization: weight of the entropy bonus.
        reward_weights: weights that make one advantage of a vector reward; None: their sum.
    """

    def __init__(
        self,
        gamma: Annotated[float, Range(min=0, max=1)] = 0.99,
        td_lambda: Annotated[float, Range(min=0, max=1)] = 0.95,
        use_gae: bool = True,
        use_td_lambda_return: bool = True,
        td_loss_weight: Annotated[float, Range(min=0)] = 0.5,
        normalize_advantages: bool = False,
        advantage_clip: Annotated[float, Range(above=0)] | None = None,
        entropy_regularization: float | Scheduler = 0.0,
        reward_weights: tuple[float, ...] | None = None,
    ) -> None:
        self._gamma = gamma
        self._lambda = td_lambda
        self._use_gae = use_gae
        self._use_td_lambda_return = use_td_lambda_return
        self._td_loss_weight = td_loss_weight
        self._normalize_advantages = normalize_advantages
        self._advantage_clip = advantage_clip
        self._entropy_weight = as_scheduler(entropy_regularization)
        self._reward_weights = None if reward_weights is None else torch.tensor(reward_weights)

    def estimate(self, values: torch.Tensor, time_step: TimeStep) -> tuple[torch.Tensor, torch.Tensor]:
        """Advantages `[T, B]` and value targets `[T, B]` or `[T, B, R]`.

        `values` and `time_step` have `T + 1` rows; the last one bootstraps.
        """
        rows = (time_step.reward, values, time_step.discount * self._gamma, time_step.step_type)

        def returns(by_lambda: bool) -> torch.Tensor:
            return td_lambda(*rows, self._lambda) if by_lambda else discounted_return(*rows)

        target = returns(self._use_td_lambda_return)
        same = self._use_gae == self._use_td_lambda_return
        advantage = (target if same else returns(self._use_gae)) - values[:-1]
        if advantage.dim() == 3:
            weights = self._reward_weights
            advantage = (advantage if weights is None else advantage * weights.to(advantage)).sum(-1)
        return advantage, target

    def shape_advantages(self, info: ActorCriticInfo, sizes: Sequence[int]) -> torch.Tensor:
        """The advantages `[T, B]` that `__call__` is to be given: normalised and clipped, as the options say.

        Args:
            info: of mini batches, side by side.
            sizes: of these, in sequences.
        """
        advantage = info.advantage
        if self._normalize_advantages:
            advantage = _normalized(advantage, info.valid, sizes)
        if self._advantage_clip is not None:
            advantage = advantage.clamp(-self._advantage_clip, self._advantage_clip)
        return advantage

    def __call__(self, info: ActorCriticInfo, progress: Progress, diagnose: bool = True) -> LossInfo:
        """The loss `[T, B]` and its parts; with `diagnose` also what is only looked at."""
        policy, entropy, entropy_weight = info.action_distribution, None, self._entropy_weight(progress)
        if not is_zero(entropy_weight):
            log_prob, entropy = policy.log_prob_and_entropy(info.action)
        else:
            log_prob = policy.log_prob(info.action)
        policy_loss, extra = self._policy_loss(info, log_prob, progress)
        value_loss = self._value_loss(info)
        if value_loss.dim() == 3:
            value_loss = value_loss.sum(-1)
        loss = policy_loss + self._td_loss_weight * value_loss
        extra = {"policy_loss": policy_loss, "value_loss": value_loss, **extra}
        if entropy is not None:
            extra["entropy"] = entropy
            loss = loss - entropy_weight * entropy
        if diagnose:
            with torch.no_grad():
                extra |= self._diagnosis(info, log_prob, progress)
        return LossInfo(loss=loss, extra=extra)

    def _policy_loss(
        self, info: ActorCriticInfo, log_prob: torch.Tensor, progress: Progress
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return policy_gradient_loss(log_prob, info.advantage), {}

    def _diagnosis(self, info: ActorCriticInfo, log_prob: torch.Tensor, progress: Progress) -> dict[str, torch.Tensor]:
        """For the summaries: computed when they are written, and without gradient."""
        return {"entropy": info.action_distribution.entropy()}

    def _value_loss(self, info: ActorCriticInfo) -> torch.Tensor:
        return squared(info.value - info.target)


def _normalized(advantage: torch.Tensor, valid: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Every mini batch for itself."""
    if len(set(sizes)) > 1:
        pieces = nest.split((advantage, valid), sizes, dim=1)
        return torch.cat([normalize_advantages(*piece) for piece in pieces], 1)
    shape = (len(advantage), len(sizes), sizes[0])
    return normalize_advantages(advantage.view(shape), valid.view(shape), dims=(0, 2)).view_as(advantage)
