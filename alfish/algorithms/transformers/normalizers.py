"""Observations and rewards of unit scale, by statistics of the rollout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import nn

from alfish.algorithms.transformers.base import DataTransformer
from alfish.algorithms.transformers.fields import Fields
from alfish.algorithms.transformers.moments import RunningMoments
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.specs import TensorSpec
from alfish.types import Nest, TimeStep, replace


@configurable
class ObservationNormalizer(DataTransformer):
    """Observations minus their running mean, divided by their running standard deviation, element by element.

    The statistics take in every observation of the rollout, before it is normalised, whether the algorithm learns
    on- or off-policy; replayed observations are normalised by the newest statistics. An element that has never
    changed is only centred.

    Args:
        observation_spec: of what comes in.
        fields: paths of leaves of the observation; None: every leaf of floats but an action mask.
        clipping: normalised values are cut to +- this; 0: they are not.
        zero_mean: subtract the mean; else only the scale is changed.
    """

    def __init__(
        self,
        observation_spec: Nest,
        fields: Sequence[str] | None = None,
        clipping: Annotated[float, Range(min=0)] = 10.0,
        zero_mean: bool = True,
    ) -> None:
        chosen = Fields("ObservationNormalizer", observation_spec, fields, _is_float)
        for path, spec in zip(chosen.paths, chosen.specs, strict=True):
            if not _is_float(spec):
                raise ConfigError(f"ObservationNormalizer normalises floats, but {path or 'it'} is {spec.dtype}")
        normalized = [TensorSpec(spec.shape, spec.dtype) for spec in chosen.specs]
        super().__init__(observation_spec, chosen.put(observation_spec, normalized))
        self._fields = chosen
        self._moments = [RunningMoments(spec.shape) for spec in chosen.specs]
        self.moments = nn.ModuleList(self._moments)
        self._clipping = clipping
        self._zero_mean = zero_mean

    def transform_timestep(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        if self.training:
            for moments, leaf in zip(self._moments, self._fields.select(time_step.observation), strict=True):
                moments.update(leaf)
        return self.transform(time_step), state

    def transform(self, time_step: TimeStep) -> TimeStep:
        return replace(time_step, observation=self._fields.map(self._normalize, time_step.observation, self._moments))

    def _normalize(self, leaf: torch.Tensor, moments: RunningMoments) -> torch.Tensor:
        centred = leaf - moments.mean.to(leaf.dtype) if self._zero_mean else leaf
        normalized = centred * moments.inverse_std.to(leaf.dtype)
        return normalized.clamp_(-self._clipping, self._clipping) if self._clipping else normalized


@configurable
class RewardNormalizer(DataTransformer):
    """Rewards divided by the running standard deviation of the discounted returns, so that values are of order 1.

    The mean stays where it is: subtracting it would change which policy is best. The returns are those of the
    rollout, each summed up from the start of its episode. A vector reward is scaled as a whole, by the returns of
    the sum of its parts, so that their proportions stay.

    Args:
        observation_spec: of what comes in.
        discount: of the returns; the algorithm's gamma. 0 divides by the standard deviation of the rewards.
        clipping: normalised rewards are cut to +- this; 0: they are not.
    """

    def __init__(
        self,
        observation_spec: Nest,
        discount: Annotated[float, Range(min=0, max=1)] = 0.99,
        clipping: Annotated[float, Range(min=0)] = 10.0,
    ) -> None:
        super().__init__(observation_spec, state_spec=TensorSpec(()))
        self.moments = RunningMoments(())
        self._discount = discount
        self._clipping = clipping

    def transform_timestep(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        if self.training:
            is_first = time_step.is_first()
            reward = time_step.reward if time_step.reward.dim() == 1 else time_step.reward.sum(-1)
            state = (reward + self._discount * state).masked_fill(is_first, 0.0)
            self.moments.update(state[~is_first] if is_first.any() else state)
        return self.transform(time_step), state

    def transform(self, time_step: TimeStep) -> TimeStep:
        reward = time_step.reward * self.moments.inverse_std.to(time_step.reward.dtype)
        return replace(time_step, reward=reward.clamp_(-self._clipping, self._clipping) if self._clipping else reward)


def _is_float(spec: TensorSpec) -> bool:
    return spec.dtype.is_floating_point
