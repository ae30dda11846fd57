"""One encoding whose features several networks see, such as a policy and a value on the same convolutions."""

from __future__ import annotations

import torch

from alfish.errors import ConfigError
from alfish.networks.action_mask import KEY
from alfish.networks.network import Network
from alfish.specs import TensorSpec
from alfish.types import Nest


class SharedEncoding(Network):
    """From observations to what the networks after it see.

    That is a vector of features; where the observation has an `action_mask`, a dict of the features and of the mask,
    which policies honour as they do that of an observation.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        encoding: network from the observation to a vector of features, with or without memory.
    """

    def __init__(self, input_tensor_spec: Nest, encoding: Network) -> None:
        if encoding.output_size < 1:
            raise ConfigError(
                f"encoding_network_ctor: {type(encoding).__name__} does not say how many features it gives. Its "
                "output is a vector, and its output_size the length of that, as in EncodingNetwork"
            )
        super().__init__(input_tensor_spec, encoding.state_spec, encoding.output_size)
        self._encoding = encoding
        self._has_mask = isinstance(input_tensor_spec, dict) and KEY in input_tensor_spec
        features = TensorSpec((encoding.output_size,))
        self.output_spec: Nest = {"features": features, KEY: input_tensor_spec[KEY]} if self._has_mask else features

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        features, state = self._encoding(inputs, state)
        return self._output(features, inputs), state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: torch.Tensor | None = None) -> tuple[Nest, Nest]:
        features, state = self._encoding.unroll(inputs, state, is_first)
        return self._output(features, inputs), state

    def _output(self, features: torch.Tensor, inputs: Nest) -> Nest:
        return {"features": features, KEY: inputs[KEY]} if self._has_mask else features
