"""Action values of discrete actions: one output per action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from alfish import nest
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.networks.action_mask import MaskReader, apply_mask
from alfish.networks.activations import relu
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.initializers import Initializer
from alfish.networks.layers import OutputLayer
from alfish.networks.network import EncodedNetwork, Network
from alfish.networks.recurrent import LSTMEncodingNetwork
from alfish.specs import BoundedTensorSpec
from alfish.types import Nest


class QHead(nn.Module):
    """A linear layer to `[..., N]`; the values of masked actions are about -1e9, so that no maximum picks them."""

    def __init__(
        self, input_size: int, observation_spec: Nest, action_spec: Nest, initializer: Initializer | None
    ) -> None:
        super().__init__()
        if not nest.is_leaf(action_spec) or not action_spec.is_discrete or action_spec.shape != ():
            raise ConfigError(
                f"QNetwork needs one discrete action (Discrete), but the action spec is {action_spec}. "
                "Use CriticNetwork for continuous, several or nested actions"
            )
        self._mask = MaskReader(observation_spec, action_spec)
        self._output = OutputLayer(input_size, action_spec.num_values, initializer, gain=1.0)

    def forward(self, features: torch.Tensor, observation: Nest) -> torch.Tensor:
        values: torch.Tensor = self._output(features)
        mask = self._mask(observation)
        return values if mask is None else apply_mask(values, mask)


@configurable
class QNetwork(EncodedNetwork):
    """Action values without memory: `values, () = net(observation)`, `[..., N]` in the order of the actions.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        action_spec: BoundedTensorSpec of one discrete action.
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
        action_spec: BoundedTensorSpec,
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
        head = QHead(encoding.output_size, input_tensor_spec, action_spec, last_kernel_initializer)
        super().__init__(input_tensor_spec, encoding, head)


@configurable
class QRnnNetwork(EncodedNetwork):
    """Action values with memory: `values, state = net(observation, state)`.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        action_spec: BoundedTensorSpec of one discrete action.
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
        action_spec: BoundedTensorSpec,
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
        head = QHead(encoding.output_size, input_tensor_spec, action_spec, last_kernel_initializer)
        super().__init__(input_tensor_spec, encoding, head)
