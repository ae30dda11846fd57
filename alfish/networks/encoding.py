"""Encodings without memory: from observations of any structure to a vector of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from alfish.config.registry import configurable
from alfish.networks.activations import bare, relu
from alfish.networks.layers import DenseLayer, DenseStack, check_sizes
from alfish.networks.network import Network
from alfish.networks.preprocessing import InputEncoder
from alfish.specs import TensorSpec
from alfish.types import Nest


@configurable
class EncodingNetwork(Network):
    """Convolutions for images, one-hot for integers, everything side by side, then fully connected layers.

    >>> EncodingNetwork(TensorSpec((4,)), fc_layer_params=(64, 64)).output_size
    64

    Args:
        input_tensor_spec: nest of TensorSpec of the observation. A top-level field `action_mask` is not looked at.
        input_preprocessors: nest of callables (modules) for leaves that want a treatment of their own, like the spec
            but possibly with fewer keys; None uses the defaults for all.
        preprocessing_combiner: `@NestConcat()` or `@NestSum()`; None concatenates.
        conv_layer_params: one `(filters, kernel, stride[, padding])` per convolution; needed for images.
        fc_layer_params: sizes of the fully connected layers.
        activation: after every layer, e.g. @relu, @tanh.
        kernel_initializer: of all layers but the last one, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        use_fc_ln: layer normalisation before the activation of the fully connected layers.
        last_layer_size: size of one more fully connected layer; None adds none.
        last_activation: of that layer; None leaves it linear.
        last_kernel_initializer: of that layer; None is `kernel_initializer`.
        image_layout: where an image has its channels; auto takes the smaller of its first and last dimension.
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int] | None = None,
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
        use_fc_ln: bool = False,
        last_layer_size: int | None = None,
        last_activation: Callable[..., torch.Tensor] | None = None,
        last_kernel_initializer: Callable[..., None] | None = None,
        image_layout: Literal["auto", "channels_first", "channels_last"] = "auto",
    ) -> None:
        super().__init__(input_tensor_spec)
        activation = bare(activation, "EncodingNetwork.activation")
        encoder = None
        if not _is_vector(input_tensor_spec) or input_preprocessors is not None or conv_layer_params:
            encoder = InputEncoder(
                input_tensor_spec,
                conv_layer_params,
                activation,
                kernel_initializer,
                image_layout,
                input_preprocessors,
                preprocessing_combiner,
            )
        layers = [
            DenseLayer(size, activation, kernel_initializer, use_fc_ln)
            for size in check_sizes(fc_layer_params, "fc_layer_params")
        ]
        if last_layer_size is not None:
            last_activation = bare(last_activation or _linear, "EncodingNetwork.last_activation")
            layers.append(DenseLayer(last_layer_size, last_activation, last_kernel_initializer or kernel_initializer))
        self._encoder = encoder
        self._dense = DenseStack(encoder.output_size if encoder else input_tensor_spec.shape[0], layers)
        self._stages = (encoder, self._dense if layers else None)
        self.output_size = self._dense.output_size

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[torch.Tensor, Nest]:
        encoder, dense = self._stages
        features = inputs if encoder is None else encoder(inputs)
        return features if dense is None else dense(features), state


def _is_vector(spec: Nest) -> bool:
    return isinstance(spec, TensorSpec) and len(spec.shape) == 1 and spec.dtype.is_floating_point


def _linear(x: torch.Tensor) -> torch.Tensor:
    return x
