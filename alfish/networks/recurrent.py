"""Encodings with memory: layers without memory, recurrent layers, layers without memory.

One call takes one step, `[B, ...]`. A sequence goes through `unroll`: the layers without memory see all steps at once,
the recurrent ones run in torch's fused kernels from one start of an episode to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from alfish import nest
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.networks.activations import bare, relu
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.full_precision import full_precision
from alfish.networks.layers import DenseLayer, DenseStack, check_sizes
from alfish.networks.network import Network
from alfish.specs import TensorSpec
from alfish.types import Nest


class _LSTMLayer(nn.LSTM):
    """One LSTM layer; its state is the pair (hidden, cell), both `[B, H]`."""

    def state_spec(self) -> Nest:
        return (TensorSpec((self.hidden_size,)), TensorSpec((self.hidden_size,)))

    def step(self, x: torch.Tensor, state: Nest) -> tuple[torch.Tensor, Nest]:
        hidden, cell = torch.lstm_cell(x, state, *self._parameters.values())  # type: ignore[arg-type]
        return hidden, (hidden, cell)

    def sequence(self, x: torch.Tensor, state: Nest) -> tuple[torch.Tensor, Nest]:
        output, state = self(x, nest.map(lambda leaf: leaf.unsqueeze(0), state))
        return output, nest.map(lambda leaf: leaf.squeeze(0), state)


class _GRULayer(nn.GRU):
    """One GRU layer; its state is the hidden vector `[B, H]`."""

    def state_spec(self) -> Nest:
        return TensorSpec((self.hidden_size,))

    def step(self, x: torch.Tensor, state: Nest) -> tuple[torch.Tensor, Nest]:
        hidden = torch.gru_cell(x, state, *self._parameters.values())  # type: ignore[arg-type]
        return hidden, hidden

    def sequence(self, x: torch.Tensor, state: Nest) -> tuple[torch.Tensor, Nest]:
        output, state = self(x, state.unsqueeze(0))
        return output, state.squeeze(0)


class _RecurrentEncoding(Network):
    """What the LSTM and the GRU encoding share; see `LSTMEncodingNetwork` for the arguments."""

    def __init__(
        self,
        layer_ctor: type[_LSTMLayer] | type[_GRULayer],
        input_tensor_spec: Nest,
        input_preprocessors: Nest,
        preprocessing_combiner: Callable[..., torch.Tensor] | None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None,
        pre_fc_layer_params: Sequence[int] | None,
        hidden_size: int | Sequence[int],
        post_fc_layer_params: Sequence[int] | None,
        activation: Callable[..., torch.Tensor],
        kernel_initializer: Callable[..., None] | None,
    ) -> None:
        pre = EncodingNetwork(
            input_tensor_spec,
            input_preprocessors=input_preprocessors,
            preprocessing_combiner=preprocessing_combiner,
            conv_layer_params=conv_layer_params,
            fc_layer_params=pre_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
            last_layer_size=None,
        )
        activation = bare(activation, "activation")
        sizes = check_sizes((hidden_size,) if isinstance(hidden_size, int) else hidden_size, "hidden_size")
        if not sizes:
            raise ConfigError("hidden_size = (): a recurrent encoding needs a recurrent layer, e.g. (100,)")
        layers = [layer_ctor(inputs, size) for inputs, size in pairwise((pre.output_size, *sizes))]
        for layer in layers:
            _initialize(layer)
        super().__init__(input_tensor_spec, tuple(layer.state_spec() for layer in layers))
        self._pre = pre
        self._recurrent = nn.ModuleList(layers)
        post = [
            DenseLayer(size, activation, kernel_initializer)
            for size in check_sizes(post_fc_layer_params, "post_fc_layer_params")
        ]
        self._post = DenseStack(sizes[-1], post)
        self.output_size = self._post.output_size

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[torch.Tensor, Nest]:
        x, _ = self._pre(inputs)
        new_state = []
        with full_precision(x):  # errors of a state would add up over time
            x = x.float()
            for layer, layer_state in zip(self._recurrent, state, strict=True):
                x, layer_state = layer.step(x, layer_state)  # type: ignore[operator]
                new_state.append(layer_state)
        return self._post(x), tuple(new_state)

    def unroll(self, inputs: Nest, state: Nest = (), is_first: torch.Tensor | None = None) -> tuple[torch.Tensor, Nest]:
        x, _ = self._pre(inputs)
        resets = [] if is_first is None else is_first.any(1).nonzero().flatten().tolist()
        borders = sorted({0, *resets, len(x)})
        new_state = []
        with full_precision(x):
            x = x.float()
            for layer, layer_state in zip(self._recurrent, state, strict=True):
                outputs = []
                for start, end in pairwise(borders):
                    if is_first is not None and start in resets:
                        layer_state = _reset(layer_state, is_first[start])
                    output, layer_state = _run(layer, x[start:end], layer_state)
                    outputs.append(output)
                x = torch.cat(outputs) if len(outputs) > 1 else outputs[0]
                new_state.append(layer_state)
        return self._post(x), tuple(new_state)


def _run(layer: Any, x: torch.Tensor, state: Nest) -> tuple[torch.Tensor, Nest]:
    if len(x) > 2:
        output, state = layer.sequence(x, state)
        return output, state
    # Starting the fused kernel takes as long as a few steps.
    outputs = []
    for row in x:
        output, state = layer.step(row, state)
        outputs.append(output)
    return torch.stack(outputs), state


def _reset(state: Nest, is_first: torch.Tensor) -> Nest:
    return nest.map(lambda leaf: leaf.masked_fill(is_first.unsqueeze(-1), 0.0), state)


def _initialize(layer: nn.RNNBase) -> None:
    for name, parameter in layer.named_parameters():
        if name.startswith("weight"):
            nn.init.orthogonal_(parameter)
        else:
            nn.init.zeros_(parameter)


@configurable
class LSTMEncodingNetwork(_RecurrentEncoding):
    """Fully connected layers, LSTM layers, fully connected layers.

    The state is a tuple with one (hidden, cell) per LSTM layer; the caller sets it to 0 where an episode starts.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        input_preprocessors: as in EncodingNetwork.
        preprocessing_combiner: as in EncodingNetwork.
        conv_layer_params: as in EncodingNetwork.
        pre_fc_layer_params: sizes of the layers before the LSTM.
        hidden_size: size of each LSTM layer; an integer means one layer.
        post_fc_layer_params: sizes of the layers after the LSTM.
        activation: of the fully connected layers and convolutions.
        kernel_initializer: of the fully connected layers and convolutions; None is orthogonal with gain sqrt(2).
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        pre_fc_layer_params: Sequence[int] | None = None,
        hidden_size: int | Sequence[int] = (100,),
        post_fc_layer_params: Sequence[int] | None = None,
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
    ) -> None:
        super().__init__(
            _LSTMLayer,
            input_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            pre_fc_layer_params,
            hidden_size,
            post_fc_layer_params,
            activation,
            kernel_initializer,
        )


@configurable
class GRUEncodingNetwork(_RecurrentEncoding):
    """Fully connected layers, GRU layers, fully connected layers.

    The state is a tuple with one hidden vector per GRU layer; the caller sets it to 0 where an episode starts.

    Args:
        input_tensor_spec: nest of TensorSpec of the observation.
        input_preprocessors: as in EncodingNetwork.
        preprocessing_combiner: as in EncodingNetwork.
        conv_layer_params: as in EncodingNetwork.
        pre_fc_layer_params: sizes of the layers before the GRU.
        hidden_size: size of each GRU layer; an integer means one layer.
        post_fc_layer_params: sizes of the layers after the GRU.
        activation: of the fully connected layers and convolutions.
        kernel_initializer: of the fully connected layers and convolutions; None is orthogonal with gain sqrt(2).
    """

    def __init__(
        self,
        input_tensor_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[..., torch.Tensor] | None = None,
        conv_layer_params: Sequence[tuple[Any, ...]] | None = None,
        pre_fc_layer_params: Sequence[int] | None = None,
        hidden_size: int | Sequence[int] = (100,),
        post_fc_layer_params: Sequence[int] | None = None,
        activation: Callable[..., torch.Tensor] = relu,
        kernel_initializer: Callable[..., None] | None = None,
    ) -> None:
        super().__init__(
            _GRULayer,
            input_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            pre_fc_layer_params,
            hidden_size,
            post_fc_layer_params,
            activation,
            kernel_initializer,
        )
