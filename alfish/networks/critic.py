"""Action values of any action: from (observation, action) to the expected return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from alfish.config.registry import configurable
from alfish.networks.activations import relu
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.network import EncodedNetwork, Network
from alfish.networks.recurrent import LSTMEncodingNetwork
from alfish.networks.value import ValueHead
from alfish.specs import TensorSpec
from alfish.types import Nest


class PairEncoding(Network):
    """The features of an observation, possibly with memory, and of an action, side by side.

    The memory is of observations alone: critics judge actions that were not taken, and these must not enter it.
    """

    def __init__(self, input_tensor_spec: Nest, observation: Network, action: Network) -> None:
        super().__init__(input_tensor_spec, observation.state_spec, observation.output_size + action.output_size)
        self._observation = observation
        self._action = action
        self._stages = (observation, action)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[torch.Tensor, Nest]:
        (of_observation, of_action), (observation, action) = self._stages, inputs
        features, state = of_observation(observation, state)
        return torch.cat((features, of_action(action)[0]), -1), state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: torch.Tensor | None = None) -> tuple[Nest, Nest]:
        observation, action = inputs
        features, state = self._observation.unroll(observation, state, is_first)
        return torch.cat((features, self._action(action)[0]), -1), state


class JointEncoding(Network):
    """A pair encoding, then layers that see both parts."""

    def __init__(self, pair: PairEncoding, joint: Network) -> None:
        super().__init__(pair.input_tensor_spec, pair.state_spec, joint.output_size)
        self._pair = pair
        self._joint = joint
        self._stages = (pair, joint)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[torch.Tensor, Nest]:
        pair, joint = self._stages
        features, state = pair(inputs, state)
        return joint(features)[0], state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: torch.Tensor | None = None) -> tuple[Nest, Nest]:
        features, state = self._pair.unroll(inputs, state, is_first)
        return self._joint(features)[0], state


@configurable
class CriticNetwork(EncodedNetwork):
    """Action values without memory: `value, () = net((observation, action))`.

    Args:
        input_tensor_spec: the pair (observation spec, action spec); discrete actions become one-hot.
        output_tensor_spec: the reward's spec: shape () for a value per step, (R,) for one per reward.
        observation_input_processors: `input_preprocessors` of EncodingNetwork, for the observation.
        observation_preprocessing_combiner: `preprocessing_combiner` of EncodingNetwork, for the observation.
        observation_conv_layer_params: `(filters, kernel, stride[, padding])` per convolution; needed for images.
        observation_fc_layer_params: sizes of the layers that see only the observation.
        action_fc_layer_params: sizes of the layers that see only the action.
        joint_fc_layer_params: sizes of the layers that see both.
        activation: after every layer, e.g. @relu, @tanh.
        kernel_initializer: of the hidden layers, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        last_kernel_initializer: of the last layer; None is orthogonal with gain 1.
    """

    def __init__(
        self,
        input_tensor_spec: tuple[Nest, Nest],
        output_tensor_spec: TensorSpec = TensorSpec(()),
        observation_input_processors: Nest = None,
        observation_preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        observation_conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        observation_fc_layer_params: Sequence[int] | None = None,
        action_fc_layer_params: Sequence[int] | None = None,
        joint_fc_layer_params: Sequence[int] | None = (256, 256),
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
        last_kernel_initializer: Callable[..., None] | None = None,
    ) -> None:
        pair = PairEncoding(
            input_tensor_spec,
            EncodingNetwork(
                input_tensor_spec[0],
                input_preprocessors=observation_input_processors,
                preprocessing_combiner=observation_preprocessing_combiner,
                conv_layer_params=observation_conv_layer_params,
                fc_layer_params=observation_fc_layer_params,
                activation=activation,
                kernel_initializer=kernel_initializer,
            ),
            EncodingNetwork(
                input_tensor_spec[1],
                fc_layer_params=action_fc_layer_params,
                activation=activation,
                kernel_initializer=kernel_initializer,
            ),
        )
        joint = EncodingNetwork(
            TensorSpec((pair.output_size,)),
            fc_layer_params=joint_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
        )
        head = ValueHead(joint.output_size, output_tensor_spec, last_kernel_initializer)
        super().__init__(input_tensor_spec, JointEncoding(pair, joint), head)


@configurable
class CriticRnnNetwork(EncodedNetwork):
    """Action values with memory: `value, state = net((observation, action), state)`.

    The recurrent layers see the observations, the action joins after them, so that judging an action that was not
    taken leaves no trace in the memory.

    Args:
        input_tensor_spec: the pair (observation spec, action spec); discrete actions become one-hot.
        output_tensor_spec: the reward's spec: shape () for a value per step, (R,) for one per reward.
        observation_input_processors: `input_preprocessors` of EncodingNetwork, for the observation.
        observation_preprocessing_combiner: `preprocessing_combiner` of EncodingNetwork, for the observation.
        observation_conv_layer_params: `(filters, kernel, stride[, padding])` per convolution; needed for images.
        observation_fc_layer_params: sizes of the layers that see only the observation, before the recurrent ones.
        action_fc_layer_params: sizes of the layers that see only the action.
        joint_fc_layer_params: sizes of the layers that see both the memory and the action.
        lstm_hidden_size: size of each recurrent layer; an integer means one layer.
        activation: of the fully connected layers and convolutions.
        kernel_initializer: of those layers, e.g. @orthogonal; None is orthogonal with gain sqrt(2).
        last_kernel_initializer: of the last layer; None is orthogonal with gain 1.
        encoding_network_ctor: @LSTMEncodingNetwork or @GRUEncodingNetwork.
    """

    def __init__(
        self,
        input_tensor_spec: tuple[Nest, Nest],
        output_tensor_spec: TensorSpec = TensorSpec(()),
        observation_input_processors: Nest = None,
        observation_preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        observation_conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        observation_fc_layer_params: Sequence[int] | None = None,
        action_fc_layer_params: Sequence[int] | None = None,
        joint_fc_layer_params: Sequence[int] | None = (256,),
        lstm_hidden_size: int | Sequence[int] = 100,
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
        last_kernel_initializer: Callable[..., None] | None = None,
        encoding_network_ctor: Callable[..., Network] = LSTMEncodingNetwork,
    ) -> None:
        pair = PairEncoding(
            input_tensor_spec,
            encoding_network_ctor(
                input_tensor_spec[0],
                input_preprocessors=observation_input_processors,
                preprocessing_combiner=observation_preprocessing_combiner,
                conv_layer_params=observation_conv_layer_params,
                pre_fc_layer_params=observation_fc_layer_params,
                hidden_size=lstm_hidden_size,
                activation=activation,
                kernel_initializer=kernel_initializer,
            ),
            EncodingNetwork(
                input_tensor_spec[1],
                fc_layer_params=action_fc_layer_params,
                activation=activation,
                kernel_initializer=kernel_initializer,
            ),
        )
        joint = EncodingNetwork(
            TensorSpec((pair.output_size,)),
            fc_layer_params=joint_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
        )
        head = ValueHead(joint.output_size, output_tensor_spec, last_kernel_initializer)
        super().__init__(input_tensor_spec, JointEncoding(pair, joint), head)
