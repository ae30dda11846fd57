"""Rewards that are easier to learn from. Metrics and evaluations show the environments' own."""

from __future__ import annotations

from collections.abc import Callable

import torch

from alfish.algorithms.transformers.base import DataTransformer
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.types import Nest, TimeStep, replace


def with_reward(time_step: TimeStep, reward: torch.Tensor) -> TimeStep:
    """The time step with another reward; at FIRST nothing was earned, so nothing is changed."""
    if reward.shape != time_step.reward.shape:
        raise ConfigError(
            f"a reward transformer turned rewards of shape {tuple(time_step.reward.shape)} into "
            f"{tuple(reward.shape)}: it must keep the shape"
        )
    is_first = time_step.is_first()
    is_first = is_first.reshape(is_first.shape + (1,) * (reward.dim() - is_first.dim()))
    return replace(time_step, reward=torch.where(is_first, time_step.reward, reward))


@configurable
class RewardScaling(DataTransformer):
    """Rewards times a constant.

    Args:
        observation_spec: of what comes in.
        scale: the factor.
    """

    def __init__(self, observation_spec: Nest, scale: float) -> None:
        super().__init__(observation_spec)
        self._scale = scale

    def transform(self, time_step: TimeStep) -> TimeStep:
        return replace(time_step, reward=time_step.reward * self._scale)


@configurable
class RewardShifting(DataTransformer):
    """Rewards plus a constant. Where episodes end early this changes which policy is best.

    Args:
        observation_spec: of what comes in.
        bias: what is added.
    """

    def __init__(self, observation_spec: Nest, bias: float) -> None:
        super().__init__(observation_spec)
        self._bias = bias

    def transform(self, time_step: TimeStep) -> TimeStep:
        return with_reward(time_step, time_step.reward + self._bias)


@configurable
class RewardClipping(DataTransformer):
    """Rewards cut to an interval; the default is DQN's for Atari.

    Args:
        observation_spec: of what comes in.
        minmax: the lowest and the highest reward.
    """

    def __init__(self, observation_spec: Nest, minmax: tuple[float, float] = (-1.0, 1.0)) -> None:
        low, high = minmax
        if low >= high:
            raise ConfigError(f"RewardClipping.minmax = {tuple(minmax)}: the first is not below the second")
        super().__init__(observation_spec)
        self._low, self._high = low, high

    def transform(self, time_step: TimeStep) -> TimeStep:
        return with_reward(time_step, time_step.reward.clamp(self._low, self._high))


@configurable
class FunctionalRewardTransformer(DataTransformer):
    """Rewards through a function of your own.

    Args:
        observation_spec: of what comes in.
        func: from a tensor of rewards, with any leading dimensions, to one of the same shape.
    """

    def __init__(self, observation_spec: Nest, func: Callable[..., torch.Tensor]) -> None:
        super().__init__(observation_spec)
        self._func = func

    def transform(self, time_step: TimeStep) -> TimeStep:
        return with_reward(time_step, self._func(time_step.reward))
