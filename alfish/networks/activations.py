"""Activation functions that a .gin file names without parentheses: `EncodingNetwork.activation=@tanh`.

They take a tensor and nothing else, so that networks can call the bare function: a call through gin costs about 10 us,
and a network makes several per step. `bare` is where networks unwrap them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch.nn import functional as F

from alfish.config.registry import configurable
from alfish.errors import ConfigError

Activation = Callable[[torch.Tensor], torch.Tensor]


@configurable
def relu(x: torch.Tensor) -> torch.Tensor:
    """max(x, 0).

    Args:
        x: any float tensor.
    """
    return torch.relu(x)


@configurable
def tanh(x: torch.Tensor) -> torch.Tensor:
    """The hyperbolic tangent.

    Args:
        x: any float tensor.
    """
    return torch.tanh(x)


@configurable
def sigmoid(x: torch.Tensor) -> torch.Tensor:
    """1 / (1 + exp(-x)).

    Args:
        x: any float tensor.
    """
    return torch.sigmoid(x)


@configurable
def elu(x: torch.Tensor) -> torch.Tensor:
    """x above 0, exp(x) - 1 below.

    Args:
        x: any float tensor.
    """
    return F.elu(x)


@configurable
def leaky_relu(x: torch.Tensor) -> torch.Tensor:
    """x above 0, 0.01 x below.

    Args:
        x: any float tensor.
    """
    return F.leaky_relu(x)


@configurable
def gelu(x: torch.Tensor) -> torch.Tensor:
    """x times the standard normal's distribution function of x.

    Args:
        x: any float tensor.
    """
    return F.gelu(x)


@configurable
def silu(x: torch.Tensor) -> torch.Tensor:
    """x sigmoid(x), also known as swish.

    Args:
        x: any float tensor.
    """
    return F.silu(x)


@configurable
def softplus(x: torch.Tensor) -> torch.Tensor:
    """log(1 + exp(x)).

    Args:
        x: any float tensor.
    """
    return F.softplus(x)


@configurable
def exp(x: torch.Tensor) -> torch.Tensor:
    """exp(x); as a `std_transform` it makes the projection's output a log standard deviation.

    Args:
        x: any float tensor.
    """
    return torch.exp(x)


@configurable
def clipped_exp(x: torch.Tensor) -> torch.Tensor:
    """exp(x) with x limited to -20..2, the usual range of a log standard deviation in SAC.

    Args:
        x: any float tensor.
    """
    return torch.exp(x.clamp(-20.0, 2.0))


@configurable
def identity(x: torch.Tensor) -> torch.Tensor:
    """x itself: a linear layer.

    Args:
        x: any tensor.
    """
    return x


def bare(activation: Activation, argument: str) -> Activation:
    """The function behind gin's wrapper; `argument` (`EncodingNetwork.activation`) names the place in an error."""
    if isinstance(activation, str):
        raise ConfigError(
            f"{argument} = {activation!r}: an activation is a function, not a string. Write {argument} = @{activation}"
        )
    if inspect.isclass(activation) or not callable(activation):
        raise ConfigError(
            f"{argument} = {activation!r}: an activation is a function from tensor to tensor, e.g. "
            f"{argument} = @tanh (`alfish list` shows all)"
        )
    unwrapped = inspect.unwrap(activation)
    return unwrapped if getattr(unwrapped, "__module__", None) == __name__ else activation


_IN_PLACE = {inspect.unwrap(relu): torch.relu_, inspect.unwrap(tanh): torch.tanh_}


def in_place(activation: Activation) -> Activation:
    """The same function of a tensor that nobody else needs: its memory takes the answer, where that can be."""
    return _IN_PLACE.get(activation, activation)


def is_elementwise(activation: Activation) -> bool:
    """Whether every element of the answer depends on one element, as in all functions of this module."""
    return getattr(activation, "__module__", None) == __name__
