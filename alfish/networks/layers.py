"""Stacks of layers as single modules: one Python call per torch operation and none per layer.

A stack keeps the parameter dictionaries of its layers at hand. They are the modules' own, so that loading, moving to a
device, copying and `torch.func.functional_call` are seen; reading them skips the attribute lookup of `nn.Module`,
which takes 1 us and for a small network adds up to as much as the arithmetic. For the same reason networks keep the
children that they call every step in a plain tuple as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from alfish.errors import ConfigError
from alfish.networks.activations import Activation, in_place, is_elementwise
from alfish.networks.initializers import Initializer, initialize
from alfish.networks.part import Part
from alfish.networks.product_layers import ONEDNN_NAMES, onednn_layers
from alfish.networks.products import is_plain, linear, onednn_pays
from alfish.specs import BoundedTensorSpec


def check_sizes(sizes: Sequence[int] | None, argument: str) -> tuple[int, ...]:
    """`sizes` as a tuple, empty for None; `(64)` without a comma is the mistake everybody makes."""
    if isinstance(sizes, int):
        raise ConfigError(f"{argument} = {sizes}: one entry per layer is expected, a tuple. Write ({sizes},)")
    if any(not isinstance(size, int) or size < 1 for size in sizes or ()):
        raise ConfigError(f"{argument} = {sizes}: the sizes of layers are integers of at least 1, e.g. (256, 256)")
    return tuple(sizes or ())


Linear = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def batched_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """N linear layers at once: `[N, ..., in]` to `[N, ..., out]`, weights `[N, out, in]`, biases `[N, out]`.

    There may be more weights than N; then the first ones count.
    """
    if x.dim() > 3:
        return batched_linear(x.flatten(1, -2), weight, bias).reshape(*x.shape[:-1], -1)
    if x.is_contiguous():  # then its gradient should be, too
        weight, bias = _first(x.size(0), weight, bias)
        if torch.is_grad_enabled() and is_plain(x.device.type):
            answer: torch.Tensor = _Rows.apply(x, weight, bias)  # type: ignore[no-untyped-call]
            return answer
        return torch.baddbmm(bias.unsqueeze(1), x, weight.mT)
    return _products(x.transpose(1, 2), weight, bias).transpose(1, 2)


class _Rows(torch.autograd.Function):
    """`batched_linear` for rows, `[N, B, in]` to `[N, B, out]`.

    torch's own backward computes the gradient of the weights with its rows as columns, which takes several times as
    long where `out` is small, as it is for values.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias.unsqueeze(1), x, weight.mT)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        of_one = weight.size(1) == 1
        return (
            (gradient * weight if of_one else torch.bmm(gradient, weight)) if of_x else None,
            torch.bmm(gradient.mT, x) if of_weight else None,
            gradient.sum(1) if of_bias else None,
        )


def _products(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """`batched_linear` for columns, `[N, in, B]` to `[N, out, B]`: gradients come out as the weights lie in memory."""
    weight, bias = _first(x.size(0), weight, bias)
    return torch.baddbmm(bias.unsqueeze(2), weight, x)


def _first(number: int, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (weight[:number], bias[:number]) if weight.size(0) > number else (weight, bias)


Step = tuple[dict[str, Any], dict[str, Any] | None, Activation]  # parameters of a layer and of its normalisation


class DenseLayer(NamedTuple):
    """One fully connected layer: linear, layer normalisation if asked for, activation."""

    size: int
    activation: Activation
    initializer: Initializer | None = None
    layer_norm: bool = False


class DenseStack(Part):
    """Fully connected layers, `[..., input_size]` to `[..., output_size]`."""

    def __init__(self, input_size: int, layers: Sequence[DenseLayer]) -> None:
        super().__init__()
        self.linear: Linear = linear  # an Ensemble puts `batched_linear` here
        self.layers = nn.ModuleList()
        self.norms = nn.ModuleList()
        self._steps: list[Step] = []
        for layer in layers:
            dense = nn.Linear(input_size, layer.size)
            initialize(dense, layer.initializer)
            self.layers.append(dense)
            norm = nn.LayerNorm(layer.size) if layer.layer_norm else None
            if norm is not None:
                self.norms.append(norm)
            activation = in_place(layer.activation)
            self._steps.append((dense._parameters, norm._parameters if norm is not None else None, activation))
            input_size = layer.size
        self.output_size = input_size
        self._largest = max((step[0] for step in self._steps), key=_num_weights, default={})
        has_names = bool(layers) and all(activation in ONEDNN_NAMES for _, _, activation in self._steps)
        self._has_onednn_form = has_names and not len(self.norms)
        self._is_elementwise = not len(self.norms) and all(is_elementwise(layer.activation) for layer in layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._flattened_through(self._steps, x)

    def layer_outputs(self, x: torch.Tensor) -> list[torch.Tensor]:
        """What each layer gives, the last as `forward` does."""
        outputs = []
        for step in self._steps:
            x = self._flattened_through([step], x)
            outputs.append(x)
        return outputs

    def _flattened_through(self, steps: list[Step], x: torch.Tensor) -> torch.Tensor:
        # Flattened once for all layers: otherwise each would do so for itself, and undo it, forward and backward.
        first = 1 if self.linear is batched_linear else 0  # in an ensemble the copies are in front
        if x.dim() <= first + 2 or not steps:
            return self._through(steps, x)
        y = self._through(steps, x.flatten(first, -2))
        return y.reshape(*x.shape[:-1], y.size(-1))

    def _through(self, steps: list[Step], x: torch.Tensor) -> torch.Tensor:
        compute = self.linear
        if self._has_onednn_form and onednn_pays(x, self._largest["weight"]):
            return _by_onednn(steps, x)
        if compute is batched_linear and self._is_elementwise:
            # Turned round once for all layers.
            x = x.transpose(1, 2)
            for layer, _, activation in steps:
                x = activation(_products(x, layer["weight"], layer["bias"]))
            return x.transpose(1, 2)
        for layer, norm, activation in steps:
            x = compute(x, layer["weight"], layer["bias"])
            if norm is not None:
                x = F.layer_norm(x, x.shape[-1:], norm["weight"], norm["bias"])
            x = activation(x)
        return x


def _by_onednn(steps: list[Step], x: torch.Tensor) -> torch.Tensor:
    parameters = [(layer["weight"], layer["bias"]) for layer, _, _ in steps]
    if x.dim() == 3:  # an ensemble's
        parameters = [_first(x.size(0), *each) for each in parameters]
    weights, biases = zip(*parameters, strict=True)
    return onednn_layers(x, weights, biases, [ONEDNN_NAMES[activation] for _, _, activation in steps])


def _num_weights(layer: dict[str, Any]) -> int:
    number: int = layer["weight"].numel()
    return number


class OutputLayer(Part):
    """The linear layer at the end of a network; its output is float32 also under autocast."""

    def __init__(self, input_size: int, output_size: int, initializer: Initializer | None, gain: float) -> None:
        super().__init__()
        self.linear: Linear = linear  # an Ensemble puts `batched_linear` here
        self.layer = nn.Linear(input_size, output_size)
        initialize(self.layer, initializer, gain)
        self._weights: dict[str, Any] = self.layer._parameters

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x, self._weights["weight"], self._weights["bias"]).float()


class BoundedSquash(Part):
    """Squashes `[..., size]` into the bounds of an action of `size` elements, where these are finite."""

    center: torch.Tensor
    scale: torch.Tensor
    bounded: torch.Tensor

    def __init__(self, spec: BoundedTensorSpec, squash: Activation) -> None:
        super().__init__()
        self._squash = squash
        low, high = (torch.tensor(bound).flatten() for bound in (spec.minimum, spec.maximum))
        bounded = torch.isfinite(low) & torch.isfinite(high)
        self.register_buffer("center", torch.where(bounded, (low + high) / 2, 0.0).float(), persistent=False)
        self.register_buffer("scale", torch.where(bounded, (high - low) / 2, 1.0).float(), persistent=False)
        self.register_buffer("bounded", bounded, persistent=False)
        self._all_bounded = bool(bounded.all())
        self._constants: dict[str, Any] = self._buffers

    def forward(self, raw: torch.Tensor) -> torch.Tensor:
        constants = self._constants
        squashed = torch.addcmul(constants["center"], constants["scale"], self._squash(raw))
        return squashed if self._all_bounded else torch.where(constants["bounded"], squashed, raw)


class ConvStack(Part):
    """Convolutions over `[..., C, H, W]` or `[..., H, W, C]`, flattened to `[..., output_size]`.

    `params` is one `(filters, kernel, stride[, padding])` per layer; each but the first an integer or a pair.
    uint8 images become floats in 0..1.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        params: Sequence[Sequence[Any]],
        activation: Activation,
        initializer: Initializer | None,
        channels_last: bool,
    ) -> None:
        super().__init__()
        self._channels_last = channels_last
        self._activation = activation
        self.layers = nn.ModuleList()
        channels, size = (shape[2], shape[:2]) if channels_last else (shape[0], shape[1:])
        for filters, kernel, stride, *rest in params:
            padding = rest[0] if rest else 0
            layer = nn.Conv2d(channels, filters, kernel, stride, padding)
            pair = (padding, padding) if isinstance(padding, int) else padding
            size = _convolved(size, layer, pair, f"conv_layer_params {tuple(params)} on an image of shape {shape}")
            initialize(layer, initializer)
            self.layers.append(layer)
            channels = filters
        self.output_size = channels * size[0] * size[1]

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        leading = image.shape[:-3]
        x = image.reshape(-1, *image.shape[-3:])
        if self._channels_last:
            x = x.movedim(-1, -3)
        # Channels last in memory: an update takes three quarters of the time.
        if x.is_floating_point():
            x = x.contiguous(memory_format=torch.channels_last)
        else:
            x = x.to(torch.float32, memory_format=torch.channels_last).div_(255.0)
        for layer in self.layers:
            x = self._activation(layer(x))
        return x.reshape(*leading, self.output_size)


def _convolved(size: tuple[int, int], layer: nn.Conv2d, padding: tuple[int, int], where: str) -> tuple[int, int]:
    after = tuple(
        (length + 2 * added - kernel) // stride + 1
        for length, kernel, stride, added in zip(size, layer.kernel_size, layer.stride, padding, strict=True)
    )
    if min(after) < 1:
        raise ConfigError(
            f"{where}: a kernel of {layer.kernel_size[0]}x{layer.kernel_size[1]} does not fit the {size[0]}x{size[1]} "
            "that is left of the image. Use fewer layers, smaller kernels or strides, or padding"
        )
    return after[0], after[1]
