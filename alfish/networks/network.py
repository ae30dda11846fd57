"""What every network is: a module called as `output, state = net(inputs, state)`, that knows its specs.

Inputs have any number of leading dimensions, `[B, ...]` or `[T, B, ...]`. A stateless network treats them alike; one
with a state takes one step per call, and a sequence through `unroll_network`.
"""

from __future__ import annotations

import torch
from torch import nn

from alfish import nest
from alfish.networks.part import Part
from alfish.types import Nest


class Network(Part):
    """The base of all networks.

    Args:
        input_tensor_spec: nest of TensorSpec of the inputs, without leading dimensions.
        state_spec: nest of TensorSpec of the recurrent state; `()` when there is none.
        output_size: length of the output's last dimension, for networks whose output is a vector.
    """

    def __init__(self, input_tensor_spec: Nest, state_spec: Nest = (), output_size: int = 0) -> None:
        super().__init__()
        self.input_tensor_spec = input_tensor_spec
        self.state_spec = state_spec
        self.output_size = output_size

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        raise NotImplementedError

    def unroll(self, inputs: Nest, state: Nest = (), is_first: torch.Tensor | None = None) -> tuple[Nest, Nest]:
        """`unroll_network` for this network; those with a state override it."""
        length = nest.first_leaf(inputs).shape[0]
        # One batch: linear layers take more operations, forward and backward, for more than one leading dimension.
        output, state = self(nest.flatten_time(inputs), state)
        return nest.unflatten_time(output, length), state


def unroll_network(
    net: Network, inputs: Nest, state: Nest = (), is_first: torch.Tensor | None = None
) -> tuple[Nest, Nest]:
    """A sequence through `net`: outputs `[T, B, ...]` and the state after the last step.

    Equal to calling `net` step by step with the state set to 0 wherever a step is FIRST, but everything that has no
    memory runs on all steps at once.

    Args:
        net: any network.
        inputs: `[T, B, ...]` leaves.
        state: `[B, ...]`, before the first step.
        is_first: bool `[T, B]`, `time_step.is_first()`; None when no episode starts inside.
    """
    return net.unroll(inputs, state, is_first)


class EncodedNetwork(Network):
    """An encoding, with or without memory, and a head that turns its features into the output.

    Args:
        input_tensor_spec: nest of TensorSpec of the inputs.
        encoding: network from the inputs to a vector of features.
        head: module called as `head(features, inputs)`.
    """

    def __init__(self, input_tensor_spec: Nest, encoding: Network, head: nn.Module) -> None:
        super().__init__(input_tensor_spec, encoding.state_spec)
        self._encoding = encoding
        self._head = head
        self._stages = (encoding, head)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        encoding, head = self._stages
        features, state = encoding(inputs, state)
        return head(features, inputs), state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: torch.Tensor | None = None) -> tuple[Nest, Nest]:
        if self.state_spec == ():
            return super().unroll(inputs, state, is_first)
        features, state = self._encoding.unroll(inputs, state, is_first)
        return self._head(features, inputs), state
