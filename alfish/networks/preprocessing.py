"""From a nest of observations to one vector of features.

What happens to a leaf depends on its spec:

| leaf | becomes |
|---|---|
| floats | flattened |
| an image (rank 3, with `conv_layer_params`) | convolved, flattened; uint8 is first scaled to 0..1 |
| uint8, not an image (e.g. Atari's RAM) | scaled to 0..1, flattened |
| integers with bounds (Discrete, MultiDiscrete) | one-hot, flattened |
| integers 0..1 of rank 1 and more (MultiBinary), bool | floats, flattened |
| anything with its own entry in `input_preprocessors` | what that answers, flattened |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import nn

from alfish import nest
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.networks.action_mask import KEY, without_mask
from alfish.networks.activations import Activation
from alfish.networks.initializers import Initializer
from alfish.networks.layers import ConvStack
from alfish.networks.part import Part
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Nest

Preprocessor = Callable[[torch.Tensor], torch.Tensor]
Combiner = Callable[[Sequence[torch.Tensor]], torch.Tensor]
ImageLayout = Literal["auto", "channels_first", "channels_last"]

_MOST_ONE_HOT_VALUES = 4096


@configurable
class NestConcat:
    """Combines the features of all leaves by putting them side by side."""

    def __call__(self, features: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(tuple(features), -1)


@configurable
class NestSum:
    """Combines the features of all leaves by adding them; they must have the same length."""

    def __call__(self, features: Sequence[torch.Tensor]) -> torch.Tensor:
        sizes = {tensor.shape[-1] for tensor in features}
        if len(sizes) > 1:
            raise ConfigError(
                f"NestSum adds features of one length, but the leaves have {sorted(sizes)}; use NestConcat"
            )
        return torch.stack(tuple(features)).sum(0)


class InputEncoder(Part):
    """Encodes every leaf to a vector `[..., size]` and combines them.

    Args:
        input_tensor_spec: nest of TensorSpec; a top-level `action_mask` is left out.
        conv_layer_params: `(filters, kernel, stride[, padding])` per layer, for every image among the leaves.
        activation: of the convolutions.
        kernel_initializer: of the convolutions.
        image_layout: where the channels are; auto takes the smaller of the first and the last dimension.
        input_preprocessors: nest of callables or None, like the spec but possibly with fewer keys.
        preprocessing_combiner: from the list of features to one; None concatenates.
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        conv_layer_params: Sequence[tuple[Any, ...]] | None,
        activation: Activation,
        kernel_initializer: Initializer | None,
        image_layout: ImageLayout,
        input_preprocessors: Nest,
        preprocessing_combiner: Combiner | None,
    ) -> None:
        super().__init__()
        spec = without_mask(input_tensor_spec)
        leaves = nest.named_leaves(spec)
        if not leaves:
            raise ConfigError(f"the observation {input_tensor_spec} holds nothing to encode besides {KEY!r}")
        own = _own_preprocessors(input_preprocessors, leaves)
        if conv_layer_params and not any(len(leaf.shape) == 3 for path, leaf in leaves.items() if path not in own):
            shapes = ", ".join(f"{path or 'it'}: {leaf.shape}" for path, leaf in leaves.items())
            raise ConfigError(
                f"conv_layer_params = {conv_layer_params}, but the observation has no image, a leaf of 3 dimensions "
                f"({shapes}). Remove conv_layer_params, or use fc_layer_params"
            )

        def encoder(path: str, leaf: TensorSpec) -> Preprocessor:
            if path in own:
                return _Flattened(own[path])
            if len(leaf.shape) == 3 and conv_layer_params:
                last = image_layout == "channels_last" or (image_layout == "auto" and leaf.shape[2] < leaf.shape[0])
                return ConvStack(leaf.shape, conv_layer_params, activation, kernel_initializer, last)
            return _vector_encoder(leaf, path)

        self._encoders = nest.map_with_path(encoder, spec)
        self._trained = nn.ModuleList(child for child in nest.leaves(self._encoders) if isinstance(child, nn.Module))
        self._combine = preprocessing_combiner or NestConcat()
        with torch.no_grad():
            example = nest.map(lambda leaf: leaf.zeros(1), spec)
            self.output_size = self(example).shape[-1]

    def forward(self, inputs: Nest) -> torch.Tensor:
        # The walk follows the spec: the order of the keys of an observation, and its action mask, do not matter.
        features = nest.leaves(nest.map(lambda encode, leaf: encode(leaf), self._encoders, inputs))
        return features[0] if len(features) == 1 else self._combine(features)


def _own_preprocessors(preprocessors: Nest, leaves: dict[str, TensorSpec]) -> dict[str, tuple[Any, TensorSpec]]:
    given = {} if preprocessors is None else nest.named_leaves(preprocessors)
    unknown = [path for path in given if path not in leaves]
    if unknown:
        raise ConfigError(
            f"input_preprocessors has an entry {unknown[0]!r}, but the observation has {', '.join(map(repr, leaves))}"
        )
    return {path: (made, leaves[path]) for path, made in given.items() if made is not None}


class _Flattened(Part):
    """A user's preprocessor, its output flattened to one vector per input."""

    def __init__(self, preprocessor_and_spec: tuple[Any, TensorSpec]) -> None:
        super().__init__()
        self._preprocess, spec = preprocessor_and_spec
        self._rank = len(spec.shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        leading = x.shape[: x.dim() - self._rank]
        output: torch.Tensor = self._preprocess(x)
        return output.reshape(*leading, -1)


def _vector_encoder(spec: TensorSpec, path: str) -> Preprocessor:
    rank = len(spec.shape)
    if spec.dtype == torch.uint8:
        if rank == 3:
            raise ConfigError(
                f"the observation {path!r} is an image of shape {spec.shape}, which needs convolutions. Set e.g. "
                "conv_layer_params = ((32, 8, 4), (64, 4, 2), (64, 3, 1)), one (filters, kernel, stride) per layer"
            )
        return lambda x: _flatten(x.float() / 255.0, rank)
    if spec.dtype.is_floating_point:
        return lambda x: _flatten(x, rank)
    if not isinstance(spec, BoundedTensorSpec) or spec.dtype == torch.bool:
        return lambda x: _flatten(x.float(), rank)
    lowest = torch.tensor(spec.minimum)
    num_values = int((spec.maximum - spec.minimum).max()) + 1
    if rank and num_values <= 2:
        return lambda x: _flatten((x - lowest.to(x.device)).float(), rank)
    if num_values > _MOST_ONE_HOT_VALUES:
        raise ConfigError(
            f"the observation {path!r} has integers of {num_values} values, too many for one-hot. Give it an "
            "input_preprocessors entry, or turn it into floats with a wrapper (create_environment.wrappers)"
        )
    values = torch.arange(num_values)

    def one_hot(x: torch.Tensor) -> torch.Tensor:
        index = (x - lowest.to(x.device)).unsqueeze(-1)
        return _flatten((index == values.to(x.device)).float(), rank + 1)

    return one_hot


def _flatten(x: torch.Tensor, rank: int) -> torch.Tensor:
    """`rank` trailing dimensions as one."""
    if rank == 1:
        return x
    return x.flatten(-rank) if rank else x.unsqueeze(-1)
