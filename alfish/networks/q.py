"""Action values of discrete actions: one output per action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Annotated, Any

import torch
from torch import nn

from alfish import nest
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.networks.action_mask import MaskReader, apply_mask
from alfish.networks.activations import Activation, bare, identity, relu
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.initializers import Initializer
from alfish.networks.layers import DenseLayer, DenseStack, OutputLayer, check_sizes
from alfish.networks.network import EncodedNetwork, Network
from alfish.networks.noisy import NoisyLinear
from alfish.networks.part import Part
from alfish.networks.recurrent import LSTMEncodingNetwork
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Nest


class QHead(Part):
    """Fully connected layers to `[..., N]`, or `[..., N, R]` for a vector reward.

    The values of masked actions are about -1e9, so that no maximum picks them. Dueling (Wang et al. 2016, eq. 9) adds a
    value and the advantages less their mean, each from layers of its own.
    """

    def __init__(
        self,
        input_size: int,
        observation_spec: Nest,
        action_spec: Nest,
        initializer: Initializer | None = None,
        reward_spec: TensorSpec = TensorSpec(()),
        layer_sizes: Sequence[int] | None = None,
        activation: Activation = relu,
        hidden_initializer: Initializer | None = None,
        dueling: bool = False,
        noise_std: float = 0.0,
    ) -> None:
        super().__init__()
        if not nest.is_leaf(action_spec) or not action_spec.is_discrete or action_spec.shape != ():
            raise ConfigError(
                f"QNetwork needs one discrete action (Discrete), but the action spec is {action_spec}. "
                "Use CriticNetwork for continuous, several or nested actions"
            )
        self._mask = MaskReader(observation_spec, action_spec)
        self._shape = (action_spec.num_values, *reward_spec.shape)
        activation = bare(activation, "QNetwork.activation")
        hidden = [
            DenseLayer(size, activation, hidden_initializer)
            for size in check_sizes(layer_sizes, "head_fc_layer_params")
        ]

        def stream(output_size: int) -> nn.Module:
            if noise_std > 0:
                return _NoisyStream(input_size, hidden, output_size, noise_std)
            output = OutputLayer(hidden[-1].size if hidden else input_size, output_size, initializer, gain=1.0)
            return nn.Sequential(DenseStack(input_size, hidden), output) if hidden else output

        self._output = stream(prod(self._shape))
        self._value = stream(reward_spec.numel) if dueling else None

    def forward(self, features: torch.Tensor, observation: Nest) -> torch.Tensor:
        values: torch.Tensor = self._output(features)
        if len(self._shape) > 1 or self._value is not None:
            values = values.reshape(*values.shape[:-1], *self._shape)
        if self._value is not None:
            actions = -len(self._shape)
            value = self._value(features).reshape(*values.shape[:actions], 1, *self._shape[1:])
            values = value + values - values.mean(actions, keepdim=True)
        mask = self._mask(observation)
        if mask is None:
            return values
        return apply_mask(values, mask if len(self._shape) == 1 else mask.unsqueeze(-1))


class _NoisyStream(Part):
    def __init__(self, input_size: int, hidden: Sequence[DenseLayer], output_size: int, noise_std: float) -> None:
        super().__init__()
        sizes = (input_size, *(layer.size for layer in hidden), output_size)
        self.layers = nn.ModuleList(NoisyLinear(*pair, noise_std) for pair in pairwise(sizes))
        self._activations = [*(layer.activation for layer in hidden), identity]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, activation in zip(self.layers, self._activations, strict=True):
            x = activation(layer(x))
        return x.float()


@configurable
class QNetwork(EncodedNetwork):
    """Action values without memory: `values, () = net(observation)`, `[..., N]` in the order of the actions.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        action_spec: BoundedTensorSpec of one discrete action.
        output_tensor_spec: the reward's spec: shape () for a value per action, (R,) for one per action and reward.
        input_preprocessors: as in EncodingNetwork.
        preprocessing_combiner: as in EncodingNetwork.
        conv_layer_params: one `(filters, kernel, stride[, padding])` per convolution; needed for images.
        fc_layer_params: sizes of the fully connected layers.
        activation: after every layer, e.g. @relu, @tanh.
        kernel_initializer: of the hidden layers, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        last_kernel_initializer: of the last layer; None is orthogonal with gain 1.
        encoding_network_ctor: what makes the encoding; called with the arguments above.
        head_fc_layer_params: sizes of the layers between the encoding and the values; two copies of them if dueling.
        dueling: the values are the sum of a state's value and the advantages, each with layers of its own.
        noise_std: above 0 the layers after the encoding are noisy; sigma_0 of Fortunato et al. 2018, who use 0.5. They
            replace epsilon-greedy exploration, and `last_kernel_initializer`.
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: BoundedTensorSpec,
        output_tensor_spec: TensorSpec = TensorSpec(()),
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        fc_layer_params: Sequence[int] | None = (256, 256),
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
        last_kernel_initializer: Callable[..., None] | None = None,
        encoding_network_ctor: Callable[..., Network] = EncodingNetwork,
        head_fc_layer_params: Sequence[int] | None = None,
        dueling: bool = False,
        noise_std: Annotated[float, Range(min=0)] = 0.0,
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
        head = QHead(
            encoding.output_size,
            input_tensor_spec,
            action_spec,
            last_kernel_initializer,
            output_tensor_spec,
            head_fc_layer_params,
            activation,
            kernel_initializer,
            dueling,
            noise_std,
        )
        super().__init__(input_tensor_spec, encoding, head)


@configurable
class QRnnNetwork(EncodedNetwork):
    """Action values with memory: `values, state = net(observation, state)`.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        action_spec: BoundedTensorSpec of one discrete action.
        output_tensor_spec: the reward's spec: shape () for a value per action, (R,) for one per action and reward.
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
        head_fc_layer_params: as in QNetwork.
        dueling: as in QNetwork.
        noise_std: as in QNetwork.
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: BoundedTensorSpec,
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
        head_fc_layer_params: Sequence[int] | None = None,
        dueling: bool = False,
        noise_std: Annotated[float, Range(min=0)] = 0.0,
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
        head = QHead(
            encoding.output_size,
            input_tensor_spec,
            action_spec,
            last_kernel_initializer,
            output_tensor_spec,
            head_fc_layer_params,
            activation,
            kernel_initializer,
            dueling,
            noise_std,
        )
        super().__init__(input_tensor_spec, encoding, head)
