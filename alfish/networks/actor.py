"""Deterministic policies: from observations to actions within their bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from alfish import nest
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.networks.activations import Activation, bare, relu, tanh
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.initializers import Initializer
from alfish.networks.layers import BoundedSquash, OutputLayer
from alfish.networks.network import EncodedNetwork, Network
from alfish.networks.part import Part
from alfish.networks.recurrent import LSTMEncodingNetwork
from alfish.specs import BoundedTensorSpec
from alfish.types import Nest


class _BoundedOutput(Part):
    """The last layer of one action: linear, squashed into the bounds, in the action's shape."""

    def __init__(
        self, input_size: int, spec: BoundedTensorSpec, squash: Activation, initializer: Initializer | None
    ) -> None:
        super().__init__()
        self._shape = spec.shape
        self._output = OutputLayer(input_size, spec.numel, initializer, gain=0.01)
        self._squash = BoundedSquash(spec, squash)
        self._stages = (self._output, self._squash)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        output, squash = self._stages
        action: torch.Tensor = squash(output(features))
        return action if len(self._shape) == 1 else action.reshape(*action.shape[:-1], *self._shape)


class ActionHead(Part):
    """One bounded linear layer per leaf of the action spec."""

    def __init__(
        self, input_size: int, action_spec: Nest, squashing_func: Activation, initializer: Initializer | None
    ) -> None:
        super().__init__()
        squash = bare(squashing_func, "ActorNetwork.squashing_func")
        for path, spec in nest.named_leaves(action_spec).items():
            if spec.is_discrete:
                raise ConfigError(
                    f"ActorNetwork is for continuous actions, but the action {path!r} has {spec.dtype}, "
                    f"{spec.minimum} .. {spec.maximum}. Use ActorDistributionNetwork, or QNetwork with DqnAlgorithm"
                )
        self._layers = nest.map(lambda spec: _BoundedOutput(input_size, spec, squash, initializer), action_spec)
        self._registered = nn.ModuleList(nest.leaves(self._layers))

    def forward(self, features: torch.Tensor, observation: Nest) -> Nest:
        return nest.map(lambda layer: layer(features), self._layers)


@configurable
class ActorNetwork(EncodedNetwork):
    """A policy without memory: `action, () = net(observation)`.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        action_spec: nest of BoundedTensorSpec of a float dtype.
        input_preprocessors: as in EncodingNetwork.
        preprocessing_combiner: as in EncodingNetwork.
        conv_layer_params: one `(filters, kernel, stride[, padding])` per convolution; needed for images.
        fc_layer_params: sizes of the fully connected layers.
        activation: after every layer, e.g. @relu, @tanh.
        kernel_initializer: of the hidden layers, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        squashing_func: into -1..1, for actions with finite bounds: @tanh.
        last_kernel_initializer: of the last layer; None is orthogonal with gain 0.01 (central first actions).
        encoding_network_ctor: what makes the encoding; called with the arguments above.
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int] | None = (256, 256),
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
        squashing_func: Callable[..., torch.Tensor] = tanh,
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
        head = ActionHead(encoding.output_size, action_spec, squashing_func, last_kernel_initializer)
        super().__init__(input_tensor_spec, encoding, head)


@configurable
class ActorRnnNetwork(EncodedNetwork):
    """A policy with memory: `action, state = net(observation, state)`.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        action_spec: nest of BoundedTensorSpec of a float dtype.
        input_preprocessors: as in EncodingNetwork.
        preprocessing_combiner: as in EncodingNetwork.
        conv_layer_params: one `(filters, kernel, stride[, padding])` per convolution; needed for images.
        fc_layer_params: sizes of the fully connected layers before the recurrent ones.
        lstm_hidden_size: size of each recurrent layer; an integer means one layer.
        actor_fc_layer_params: sizes of the fully connected layers after the recurrent ones.
        activation: of the fully connected layers and convolutions.
        kernel_initializer: of those layers, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        squashing_func: into -1..1, for actions with finite bounds: @tanh.
        last_kernel_initializer: of the last layer; None is orthogonal with gain 0.01 (central first actions).
        encoding_network_ctor: @LSTMEncodingNetwork or @GRUEncodingNetwork.
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int] | None = None,
        lstm_hidden_size: int | Sequence[int] = 100,
        actor_fc_layer_params: Sequence[int] | None = None,
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
        squashing_func: Callable[..., torch.Tensor] = tanh,
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
            post_fc_layer_params=actor_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
        )
        head = ActionHead(encoding.output_size, action_spec, squashing_func, last_kernel_initializer)
        super().__init__(input_tensor_spec, encoding, head)
