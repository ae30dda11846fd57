"""The parts of implicit Q-learning (Kostrikov et al. 2021). Everything is elementwise."""

from __future__ import annotations

from math import log

import torch


def expectile_weight(error: torch.Tensor, expectile: float) -> torch.Tensor:
    """How much an error counts: `expectile` where the prediction was too low, `1 - expectile` where it was too high.

    Args:
        error: target minus prediction.
        expectile: tau of the paper; 0.5 weighs both alike, near 1 the prediction goes to the largest target.
    """
    return torch.where(error.detach() < 0, 1 - expectile, expectile)


def expectile_loss(error: torch.Tensor, expectile: float) -> torch.Tensor:
    """`|expectile - 1(error < 0)| * error ** 2`, equation 5: least where the prediction is that expectile."""
    return expectile_weight(error, expectile) * error.square()


@torch.no_grad()
def advantage_weights(advantage: torch.Tensor, inverse_temperature: float, max_weight: float) -> torch.Tensor:
    """`min(exp(inverse_temperature * advantage), max_weight)`: how much an action is imitated, equation 7.

    Args:
        advantage: of the action that was taken.
        inverse_temperature: beta of the paper; 0 imitates all actions alike.
        max_weight: the most that one action counts.
    """
    return (inverse_temperature * advantage).clamp(max=log(max_weight)).exp()
