"""The weight of the entropy in SAC, kept such that the entropy is near a target (Haarnoja et al. 2018b)."""

from __future__ import annotations

from math import log

import torch
from torch import nn

from alfish import nest
from alfish.specs import BoundedTensorSpec
from alfish.types import Nest

_LEAST_PROBABLE = 0.1


class EntropyTemperature(nn.Module):
    """alpha, learned or fixed.

    Args:
        target_entropy: in nats, what the policy's entropy is driven to.
        initial_log_alpha: logarithm of alpha at the start.
        is_learned: False keeps alpha as it is.
    """

    def __init__(self, target_entropy: float, initial_log_alpha: float, is_learned: bool = True) -> None:
        super().__init__()
        self.target_entropy = target_entropy
        self.log_alpha = nn.Parameter(torch.tensor(float(initial_log_alpha)), requires_grad=is_learned)

    def alpha(self) -> torch.Tensor:
        """Without gradient."""
        return self.log_alpha.detach().exp()

    def loss(self, entropy: torch.Tensor) -> torch.Tensor:
        """Like `entropy`. Its gradient raises alpha where the entropy is below the target, and lowers it above."""
        return self.log_alpha * (entropy.detach() - self.target_entropy)


def default_target_entropy(action_spec: Nest) -> float:
    """The sum over all elements of an action.

    Continuous: -1 in units of half the range, as in the SAC paper for actions in -1..1. Discrete: the entropy of
    choosing one action with probability 0.9 and the others equally.
    """
    return sum(_default(spec) for spec in nest.leaves(action_spec))


def _default(spec: BoundedTensorSpec) -> float:
    if spec.is_discrete:
        others = spec.num_values - 1
        if others == 0:
            return 0.0
        rest = min(_LEAST_PROBABLE, others / (others + 1))
        return -spec.numel * ((1 - rest) * log(1 - rest) + rest * log(rest / others))
    half = [(high - low) / 2 for low, high in zip(spec.minimum.flat, spec.maximum.flat, strict=True)]
    return sum((log(unit) if 0 < unit < float("inf") else 0.0) - 1 for unit in half)
