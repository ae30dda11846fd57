"""The loss of proximal policy optimization."""

from __future__ import annotations

from typing import Annotated

import torch

from alfish.algorithms.actor_critic_loss import ActorCriticInfo, ActorCriticLoss
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.losses.policy_gradient import approximate_kl, clip_fraction, clipped_value_loss, ppo_clipped_loss
from alfish.optimizers.schedulers import Scheduler, as_scheduler
from alfish.progress import Progress


@configurable
class PPOLoss(ActorCriticLoss):
    """The clipped surrogate (Schulman et al. 2017, eq. 7) with value error and entropy bonus (eq. 9).

    Args:
        gamma: discount of future rewards.
        td_lambda: the lambda of GAE and of the TD(lambda) return.
        use_gae: advantages by GAE; else bootstrapped return minus value.
        use_td_lambda_return: the value learns the TD(lambda) return; else the bootstrapped return.
        td_loss_weight: c1 of eq. 9, weight of the squared value error.
        normalize_advantages: to mean 0 and standard deviation 1 in every mini batch.
        advantage_clip: limit of the advantage's magnitude; None: no limit.
        entropy_regularization: c2 of eq. 9, weight of the entropy bonus.
        reward_weights: weights that make one advantage of a vector reward; None: their sum.
        importance_ratio_clipping: epsilon of eq. 7.
        value_clipping: limit of the value's change per iteration; None: no limit.
        target_kl: end the iteration's updates when the policy has moved 1.5 times as far; None: no limit.
    """

    def __init__(
        self,
        gamma: Annotated[float, Range(min=0, max=1)] = 0.99,
        td_lambda: Annotated[float, Range(min=0, max=1)] = 0.95,
        use_gae: bool = True,
        use_td_lambda_return: bool = True,
        td_loss_weight: Annotated[float, Range(min=0)] = 0.5,
        normalize_advantages: bool = True,
        advantage_clip: Annotated[float, Range(above=0)] | None = None,
        entropy_regularization: float | Scheduler = 0.0,
        reward_weights: tuple[float, ...] | None = None,
        importance_ratio_clipping: float | Scheduler = 0.2,
        value_clipping: Annotated[float, Range(above=0)] | None = None,
        target_kl: Annotated[float, Range(above=0)] | None = None,
    ) -> None:
        super().__init__(
            gamma=gamma,
            td_lambda=td_lambda,
            use_gae=use_gae,
            use_td_lambda_return=use_td_lambda_return,
            td_loss_weight=td_loss_weight,
            normalize_advantages=normalize_advantages,
            advantage_clip=advantage_clip,
            entropy_regularization=entropy_regularization,
            reward_weights=reward_weights,
        )
        self._ratio_clipping = as_scheduler(importance_ratio_clipping)
        self._value_clipping = value_clipping
        self.target_kl = target_kl

    def _policy_loss(
        self, info: ActorCriticInfo, log_prob: torch.Tensor, progress: Progress
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss = ppo_clipped_loss(log_prob, info.old_log_prob, info.advantage, self._ratio_clipping(progress))
        if self.target_kl is None:
            return loss, {}
        return loss, {"approximate_kl": approximate_kl(log_prob, info.old_log_prob, info.valid)}

    def _diagnosis(self, info: ActorCriticInfo, log_prob: torch.Tensor, progress: Progress) -> dict[str, torch.Tensor]:
        ratio = log_prob, info.old_log_prob
        return {
            **super()._diagnosis(info, log_prob, progress),
            "approximate_kl": approximate_kl(*ratio, info.valid),
            "clip_fraction": clip_fraction(*ratio, self._ratio_clipping(progress), info.valid),
        }

    def _value_loss(self, info: ActorCriticInfo) -> torch.Tensor:
        return clipped_value_loss(info.value, info.old_value, info.target, self._value_clipping)
