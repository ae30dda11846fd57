"""Projections: the last layer of a policy, from features to an action distribution."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Annotated

import torch
from torch import nn

from alfish import nest
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.networks.action_mask import MaskReader, apply_mask, existing_choices
from alfish.networks.activations import bare, softplus
from alfish.networks.distributions import Categorical, DiagonalNormal, Distribution, Joint, SquashedNormal
from alfish.networks.layers import BoundedSquash, OutputLayer
from alfish.networks.part import Part
from alfish.specs import BoundedTensorSpec
from alfish.types import Nest


@configurable
class CategoricalProjectionNetwork(Part):
    """From features to a `Categorical` over a discrete action: Discrete, MultiDiscrete or MultiBinary.

    Args:
        input_size: number of features.
        action_spec: BoundedTensorSpec of an integer dtype.
        logits_init_output_factor: gain of the orthogonal initialisation; small makes the first policy nearly uniform.
    """

    _existing: torch.Tensor

    def __init__(
        self,
        input_size: int,
        action_spec: BoundedTensorSpec,
        logits_init_output_factor: Annotated[float, Range(min=0)] = 0.01,
    ) -> None:
        super().__init__()
        if not action_spec.is_discrete:
            raise ConfigError(
                f"CategoricalProjectionNetwork is for discrete actions, but this one has {action_spec.dtype} of shape "
                f"{action_spec.shape}. Use NormalProjectionNetwork"
            )
        existing = existing_choices(action_spec)
        self._choices = tuple(existing.shape)
        self._distribution = Categorical.for_spec(action_spec)
        self._output = OutputLayer(input_size, existing.numel(), None, logits_init_output_factor)
        self._stages = (self._output,)
        # Choices of unequal sizes are padded to the largest; what does not exist is masked for good.
        self.register_buffer("_existing", existing, persistent=False)
        self._all_exist = bool(existing.all())

    def forward(self, features: torch.Tensor, mask: torch.Tensor | None = None) -> Categorical:
        """`features`: `[..., input_size]`; `mask`: bool, `[..., *action_spec.shape, N]`, True where allowed."""
        (output,) = self._stages
        logits: torch.Tensor = output(features)
        if len(self._choices) > 1:
            logits = logits.reshape(*logits.shape[:-1], *self._choices)
        if not self._all_exist:
            logits = apply_mask(logits, self._existing)
        if mask is not None:
            logits = apply_mask(logits, mask)
        return self._distribution(logits)


@configurable
class NormalProjectionNetwork(Part):
    """From features to independent normals over a continuous action.

    Args:
        input_size: number of features.
        action_spec: BoundedTensorSpec of a float dtype.
        projection_output_init_gain: gain of the orthogonal initialisation; small centres the first policy.
        std_bias_initializer_value: what `std_transform` is applied to at the start: 0 gives 1 with @exp, 0.69 with
            @softplus.
        squash_mean: tanh takes the mean into the action's bounds; elements without finite bounds stay as they are. The
            samples still go beyond. Without effect when `scale_distribution` is True.
        state_dependent_std: the standard deviation depends on the features; False learns one vector for all.
        std_transform: makes the standard deviation positive: @softplus, @exp, @clipped_exp.
        scale_distribution: tanh takes the samples into the bounds (`SquashedNormal`), which must be finite.
    """

    def __init__(
        self,
        input_size: int,
        action_spec: BoundedTensorSpec,
        projection_output_init_gain: Annotated[float, Range(min=0)] = 0.01,
        std_bias_initializer_value: float = 0.0,
        squash_mean: bool = True,
        state_dependent_std: bool = False,
        std_transform: Callable[..., torch.Tensor] = softplus,
        scale_distribution: bool = False,
    ) -> None:
        super().__init__()
        if action_spec.is_discrete:
            raise ConfigError(
                f"{type(self).__name__} is for continuous actions, but this one has {action_spec.dtype} of shape "
                f"{action_spec.shape}. Use CategoricalProjectionNetwork"
            )
        self._shape = action_spec.shape
        self._std_transform = bare(std_transform, f"{type(self).__name__}.std_transform")
        self._distribution: type[DiagonalNormal] | type[SquashedNormal] = (
            SquashedNormal.for_spec(action_spec) if scale_distribution else DiagonalNormal.for_spec(action_spec)
        )
        size = action_spec.numel
        outputs = 2 * size if state_dependent_std else size
        self._output = OutputLayer(input_size, outputs, None, projection_output_init_gain)
        # Also when the standard deviations depend on the features: then it is their bias.
        self.std_bias = nn.Parameter(torch.full((size,), std_bias_initializer_value))
        self._state_dependent_std = state_dependent_std
        self._squash_mean = BoundedSquash(action_spec, torch.tanh) if squash_mean and not scale_distribution else None
        self._stages = (self._output, self._squash_mean)

    def forward(self, features: torch.Tensor) -> DiagonalNormal | SquashedNormal:
        """`features`: `[..., input_size]`."""
        output, squash_mean = self._stages
        mean: torch.Tensor = output(features)
        if self._state_dependent_std:
            mean, raw_std = mean.chunk(2, -1)
            std = self._std_transform(raw_std + self.std_bias)
        else:
            std = self._std_transform(self.std_bias).expand_as(mean)
        if squash_mean is not None:
            mean = squash_mean(mean)
        if len(self._shape) != 1:
            mean, std = (x.reshape(*x.shape[:-1], *self._shape) for x in (mean, std))
        return self._distribution(mean, std)


@configurable
class StableNormalProjectionNetwork(NormalProjectionNetwork):
    """The projection for SAC: squashed samples, a standard deviation that depends on the features and has limits.

    Args:
        input_size: number of features.
        action_spec: BoundedTensorSpec of a float dtype.
        projection_output_init_gain: gain of the orthogonal initialisation; small centres the first policy.
        squash_mean: as in NormalProjectionNetwork; without effect when `scale_distribution` is True.
        state_dependent_std: the standard deviation depends on the features; False learns one vector for all.
        scale_distribution: tanh takes the samples into the bounds, which must be finite.
        init_std: standard deviation at the start, before squashing.
        min_std: lower limit of the standard deviation; the default is exp(-5).
        max_std: upper limit of the standard deviation; the default is exp(2).
    """

    def __init__(
        self,
        input_size: int,
        action_spec: BoundedTensorSpec,
        projection_output_init_gain: Annotated[float, Range(min=0)] = 0.01,
        squash_mean: bool = False,
        state_dependent_std: bool = True,
        scale_distribution: bool = True,
        init_std: Annotated[float, Range(above=0)] = 1.0,
        min_std: Annotated[float, Range(above=0)] = 0.0067,
        max_std: Annotated[float, Range(above=0)] = 7.389,
    ) -> None:
        if not min_std <= init_std <= max_std:
            raise ConfigError(
                f"StableNormalProjectionNetwork: init_std = {init_std} is not between min_std = {min_std} and "
                f"max_std = {max_std}"
            )
        lowest, highest = log(min_std), log(max_std)

        def std_transform(log_std: torch.Tensor) -> torch.Tensor:
            return log_std.clamp(lowest, highest).exp()

        super().__init__(
            input_size,
            action_spec,
            projection_output_init_gain=projection_output_init_gain,
            std_bias_initializer_value=log(init_std),
            squash_mean=squash_mean,
            state_dependent_std=state_dependent_std,
            std_transform=std_transform,
            scale_distribution=scale_distribution,
        )


class DistributionHead(Part):
    """One projection per leaf of the action spec, each with its action mask if the observation has one.

    Args:
        input_size: number of features.
        observation_spec: nest of TensorSpec, looked through for `action_mask`.
        action_spec: nest of BoundedTensorSpec.
        discrete_projection_net_ctor: called with input_size and action_spec for integer leaves.
        continuous_projection_net_ctor: the same for float leaves.
    """

    def __init__(
        self,
        input_size: int,
        observation_spec: Nest,
        action_spec: Nest,
        discrete_projection_net_ctor: Callable[..., nn.Module],
        continuous_projection_net_ctor: Callable[..., nn.Module],
    ) -> None:
        super().__init__()
        self._action_spec = action_spec
        self._is_single = nest.is_leaf(action_spec)
        self._projections = nn.ModuleList()
        self._parts: list[tuple[nn.Module, MaskReader | None]] = []
        for path, spec in nest.named_leaves(action_spec).items():
            ctor = discrete_projection_net_ctor if spec.is_discrete else continuous_projection_net_ctor
            projection = ctor(input_size=input_size, action_spec=spec)
            self._projections.append(projection)
            mask = MaskReader(observation_spec, action_spec, path) if spec.is_discrete else None
            self._parts.append((projection, mask))

    def forward(self, features: torch.Tensor, observation: Nest) -> Distribution:
        parts = [
            projection(features) if mask is None else projection(features, mask(observation))
            for projection, mask in self._parts
        ]
        return parts[0] if self._is_single else Joint(nest.unflatten(self._action_spec, parts))
