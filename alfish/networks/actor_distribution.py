"""Stochastic policies: from observations to a distribution over actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from alfish.config.registry import configurable
from alfish.networks.activations import relu
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.network import EncodedNetwork, Network
from alfish.networks.projection import CategoricalProjectionNetwork, DistributionHead, NormalProjectionNetwork
from alfish.networks.recurrent import LSTMEncodingNetwork
from alfish.types import Nest


@configurable
class ActorDistributionNetwork(EncodedNetwork):
    """A policy without memory: `distribution, () = net(observation)`.

    The distribution is a `Categorical`, a `DiagonalNormal` or a `SquashedNormal`, and a `Joint` of these when the
    action is nested. An observation field `action_mask` is honoured by the discrete heads.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        action_spec: nest of BoundedTensorSpec of the action.
        input_preprocessors: as in EncodingNetwork.
        preprocessing_combiner: as in EncodingNetwork.
        conv_layer_params: one `(filters, kernel, stride[, padding])` per convolution; needed for images.
        fc_layer_params: sizes of the fully connected layers.
        activation: after every layer, e.g. @relu, @tanh.
        kernel_initializer: of the hidden layers, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        discrete_projection_net_ctor: head of discrete actions.
        continuous_projection_net_ctor: head of continuous actions: @NormalProjectionNetwork (PPO),
            @StableNormalProjectionNetwork (SAC).
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
        discrete_projection_net_ctor: Callable[..., nn.Module] = CategoricalProjectionNetwork,
        continuous_projection_net_ctor: Callable[..., nn.Module] = NormalProjectionNetwork,
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
        head = DistributionHead(
            encoding.output_size,
            input_tensor_spec,
            action_spec,
            discrete_projection_net_ctor,
            continuous_projection_net_ctor,
        )
        super().__init__(input_tensor_spec, encoding, head)


@configurable
class ActorDistributionRnnNetwork(EncodedNetwork):
    """A policy with memory: `distribution, state = net(observation, state)`.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        action_spec: nest of BoundedTensorSpec of the action.
        input_preprocessors: as in EncodingNetwork.
        preprocessing_combiner: as in EncodingNetwork.
        conv_layer_params: one `(filters, kernel, stride[, padding])` per convolution; needed for images.
        fc_layer_params: sizes of the fully connected layers before the recurrent ones.
        lstm_hidden_size: size of each recurrent layer; an integer means one layer.
        actor_fc_layer_params: sizes of the fully connected layers after the recurrent ones.
        activation: of the fully connected layers and convolutions.
        kernel_initializer: of those layers, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        discrete_projection_net_ctor: head of discrete actions.
        continuous_projection_net_ctor: head of continuous actions: @NormalProjectionNetwork (PPO),
            @StableNormalProjectionNetwork (SAC).
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
        discrete_projection_net_ctor: Callable[..., nn.Module] = CategoricalProjectionNetwork,
        continuous_projection_net_ctor: Callable[..., nn.Module] = NormalProjectionNetwork,
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
        head = DistributionHead(
            encoding.output_size,
            input_tensor_spec,
            action_spec,
            discrete_projection_net_ctor,
            continuous_projection_net_ctor,
        )
        super().__init__(input_tensor_spec, encoding, head)
