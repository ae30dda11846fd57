"""Weight initialisers that a .gin file names without parentheses: `EncodingNetwork.kernel_initializer=@orthogonal`.

An initialiser fills a weight tensor in place, with torch's global generator, and is called only when a network is
built. Biases always start at 0. Their arguments are bound by name: `orthogonal.gain=1.0`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Annotated, Literal

import torch
from torch import nn

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError

Initializer = Callable[[torch.Tensor], object]


@configurable
def orthogonal(weight: torch.Tensor, gain: Annotated[float, Range(min=0)] = sqrt(2.0)) -> None:
    """An orthogonal matrix times `gain`; a convolution's kernel counts as a matrix of one row per filter.

    Args:
        weight: the tensor to fill.
        gain: scale; the default sqrt(2) keeps the variance through relu, and is PPO's usual choice for tanh too.
    """
    nn.init.orthogonal_(weight, gain)


@configurable
def variance_scaling(
    weight: torch.Tensor,
    gain: Annotated[float, Range(min=0)] = sqrt(2.0),
    mode: Literal["fan_in", "fan_out", "fan_avg"] = "fan_in",
    distribution: Literal["truncated_normal", "uniform"] = "truncated_normal",
) -> None:
    """Independent weights of standard deviation gain / sqrt(fan).

    Args:
        weight: the tensor to fill.
        gain: scale; sqrt(2) suits relu (He), 1 suits tanh and linear layers (LeCun with fan_in, Glorot with fan_avg).
        mode: which fan: inputs, outputs or their mean.
        distribution: truncated_normal (at two standard deviations) or uniform.
    """
    fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(weight)
    fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
    std = gain / sqrt(fan)
    if distribution == "uniform":
        nn.init.uniform_(weight, -sqrt(3.0) * std, sqrt(3.0) * std)
    else:
        std /= 0.87962566  # the standard deviation of a standard normal cut off at +-2
        nn.init.trunc_normal_(weight, 0.0, std, -2 * std, 2 * std)


@configurable
def uniform(weight: torch.Tensor, scale: Annotated[float, Range(min=0)] = 3e-3) -> None:
    """Uniform between -scale and scale; the default is what DDPG uses for its last layers.

    Args:
        weight: the tensor to fill.
        scale: half the width.
    """
    nn.init.uniform_(weight, -scale, scale)


@configurable
def zeros(weight: torch.Tensor) -> None:
    """All 0. For last layers only: hidden layers of zeros never learn to differ.

    Args:
        weight: the tensor to fill.
    """
    nn.init.zeros_(weight)


def initialize(layer: nn.Linear | nn.Conv2d, initializer: Initializer | None, gain: float = sqrt(2.0)) -> None:
    """Fills the weight by `initializer`, or orthogonally with `gain` when there is none; the bias becomes 0."""
    if isinstance(initializer, str):
        raise ConfigError(
            f"an initializer is a function, not a string: write @{initializer} instead of {initializer!r}"
        )
    with torch.no_grad():
        if initializer is None:
            nn.init.orthogonal_(layer.weight, gain)
        else:
            initializer(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
