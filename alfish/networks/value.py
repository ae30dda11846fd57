"""State values: from observations to the expected return, one per reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from alfish.config.registry import configurable
from alfish.networks.activations import relu
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.initializers import Initializer
from alfish.networks.layers import OutputLayer
from alfish.networks.network import EncodedNetwork, Network
from alfish.networks.part import Part
from alfish.networks.recurrent import LSTMEncodingNetwork
from alfish.specs import TensorSpec
from alfish.types import Nest


class ValueHead(Part):
    """A linear layer to `[...]` for a spec of shape (), to `[..., *shape]` otherwise."""

    def __init__(self, input_size: int, spec: TensorSpec, initializer: Initializer | None) -> None:
        super().__init__()
        self._shape = spec.shape
        self._output = OutputLayer(input_size, spec.numel, initializer, gain=1.0)
        self._stages = (self._output,)

    def forward(self, features: torch.Tensor, inputs: Nest) -> torch.Tensor:
        (output,) = self._stages
        values: torch.Tensor = output(features)
        return values.squeeze(-1) if self._shape == () else values.reshape(*values.shape[:-1], *self._shape)


@configurable
class ValueNetwork(EncodedNetwork):
    """State values without memory: `value, () = net(observation)`.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        output_tensor_spec: the reward's spec: shape () for a value per step, (R,) for one per reward.
        input_preprocessors: as in EncodingNetwork.
        preprocessing_combiner: as in EncodingNetwork.
        conv_layer_params: one `(filters, kernel, stride[, padding])` per convolution; needed for images.
        fc_layer_params: sizes of the fully connected layers.
        activation: after every layer, e.g. @relu, @tanh.
        kernel_initializer: of the hidden layers, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        last_kernel_initializer: of the last layer; None is orthogonal with gain 1.
        encoding_network_ctor: what makes the encoding; called with the arguments above.
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        output_tensor_spec: TensorSpec = TensorSpec(()),
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int] | None = (256, 256),
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
        last_kernel_initializer: Callable[..., None] | None = None,
        encoding_network_ctor: Callable[..., Network] = EncodingNetwork,
    ) -> None:
        encoding = encoding_network_ctor(
            input_tensor_spec,
            input_preprocessors=input_preprocessors,
            preprocessing_combiner=preprocessing_combiner,
            conv_layer_params=conv_layer_params,
            fc_layer_params=fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
        )
        head = ValueHead(encoding.output_size, output_tensor_spec, last_kernel_initializer)
        super().__init__(input_tensor_spec, encoding, head)


@configurable
class ValueRnnNetwork(EncodedNetwork):
    """State values with memory: `value, state = net(observation, state)`.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        output_tensor_spec: the reward's spec: shape () for a value per step, (R,) for one per reward.
        input_preprocessors: as in EncodingNetwork.
        preprocessing_combiner: as in EncodingNetwork.
        conv_layer_params: one `(filters, kernel, stride[, padding])` per convolution; needed for images.
        fc_layer_params: sizes of the fully connected layers before the recurrent ones.
        lstm_hidden_size: size of each recurrent layer; an integer means one layer.
        value_fc_layer_params: sizes of the fully connected layers after the recurrent ones.
        activation: of the fully connected layers and convolutions.
        kernel_initializer: of those layers, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        last_kernel_initializer: of the last layer; None is orthogonal with gain 1.
        encoding_network_ctor: @LSTMEncodingNetwork or @GRUEncodingNetwork.
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        output_tensor_spec: TensorSpec = TensorSpec(()),
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int] | None = None,
        lstm_hidden_size: int | Sequence[int] = 100,
        value_fc_layer_params: Sequence[int] | None = None,
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
        last_kernel_initializer: Callable[..., None] | None = None,
        encoding_network_ctor: Callable[..., Network] = LSTMEncodingNetwork,
    ) -> None:
        encoding = encoding_network_ctor(
            input_tensor_spec,
            input_preprocessors=input_preprocessors,
            preprocessing_combiner=preprocessing_combiner,
            conv_layer_params=conv_layer_params,
            pre_fc_layer_params=fc_layer_params,
            hidden_size=lstm_hidden_size,
            post_fc_layer_params=value_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
        )
        head = ValueHead(encoding.output_size, output_tensor_spec, last_kernel_initializer)
        super().__init__(input_tensor_spec, encoding, head)
