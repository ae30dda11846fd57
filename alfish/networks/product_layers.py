"""Dense layers with large products by oneDNN: all of a stack are one operation to autograd.

What is around a product, a node of autograd and an activation of its own, takes as long as a small product does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from alfish.networks.products import gradient_of_weight, onednn_product

Tensors = Sequence[torch.Tensor]
Gradients = list[torch.Tensor | None]

# By the function that computes it in place: its name in oneDNN, which applies it to a product that is in the cache yet.
ONEDNN_NAMES: dict[Callable[..., torch.Tensor], str] = {torch.relu_: "relu", torch.tanh_: "tanh"}


class _Form(NamedTuple):
    function: Callable[[torch.Tensor], torch.Tensor]
    gradient: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # from that of the output, and the output


_FORMS = {
    "relu": _Form(torch.relu, lambda gradient, output: torch.ops.aten.threshold_backward(gradient, output, 0)),
    "tanh": _Form(torch.tanh, torch.ops.aten.tanh_backward),
}


def onednn_layers(x: torch.Tensor, weights: Tensors, biases: Tensors, activations: Sequence[str]) -> torch.Tensor:
    """Linear layers on each other, with their activations.

    Args:
        x: `[B, in]`; or `[N, B, in]` for N copies of the layers, computed one after the other.
        weights: of each layer, `[out, in]` or `[N, out, in]`.
        biases: of each layer, `[out]` or `[N, out]`.
        activations: of each layer, a value of `ONEDNN_NAMES`.
    """
    if torch.is_grad_enabled():
        answer: torch.Tensor = _Layers.apply(x, tuple(activations), *weights, *biases)  # type: ignore[no-untyped-call]
        return answer
    return _joined(x, [_outputs(activations, *copy)[-1] for copy in _copies(x, *weights, *biases)])


class _Layers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, activations: Sequence[str], *parameters: torch.Tensor) -> torch.Tensor:
        outputs = [_outputs(activations, *copy) for copy in _copies(x, *parameters)]
        ctx.activations = activations
        ctx.save_for_backward(x, *parameters, *chain(*outputs))
        return _joined(x, [each[-1] for each in outputs])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        activations, number = ctx.activations, len(ctx.activations)
        x, *rest = ctx.saved_tensors
        parameters, outputs = rest[: 2 * number], iter(rest[2 * number :])
        of_x, _, *of_parameters = ctx.needs_input_grad
        if torch.is_grad_enabled():
            found = _differentiable(activations, gradient, [x, *parameters], [of_x, *of_parameters])
        else:
            of_copies = [
                _gradients(activations, list(islice(outputs, number)), of_x, any(of_parameters), *copy)
                for copy in _copies(x, gradient, *parameters[:number])
            ]
            found = [None if each[0] is None else _joined(x, each) for each in zip(*of_copies, strict=True)]
        return found[0], None, *found[1:]


def _copies(x: torch.Tensor, *others: torch.Tensor) -> Iterable[Tensors]:
    """What each copy is computed from."""
    tensors = (x, *others)
    return [tensors] if x.dim() == 2 else zip(*(each.unbind() for each in tensors), strict=True)


def _joined(x: torch.Tensor, of_copies: Any) -> torch.Tensor:
    joined: torch.Tensor = of_copies[0] if x.dim() == 2 else torch.stack(of_copies)
    return joined


def _outputs(activations: Sequence[str], x: torch.Tensor, *parameters: torch.Tensor) -> list[torch.Tensor]:
    """What each layer of a copy gives."""
    outputs = []
    for activation, weight, bias in zip(activations, parameters, parameters[len(activations) :], strict=False):
        x = onednn_product(x, weight, bias, activation)
        outputs.append(x)
    return outputs


def _gradients(
    activations: Sequence[str],
    outputs: Tensors,
    of_x: bool,
    of_parameters: bool,
    x: torch.Tensor,
    gradient: torch.Tensor,
    *weights: torch.Tensor,
) -> Gradients:
    """Of a copy: of x, of its weights, of its biases."""
    inputs = [x, *outputs[:-1]]
    number = len(weights)
    of_weights: Gradients = [None] * number
    of_biases: Gradients = [None] * number
    for layer in reversed(range(number)):
        gradient = _FORMS[activations[layer]].gradient(gradient, outputs[layer])
        if of_parameters:
            of_weights[layer] = gradient_of_weight(gradient, inputs[layer])
            of_biases[layer] = gradient.sum(0)
        if layer > 0 or of_x:
            gradient = onednn_product(gradient, weights[layer].t())
    return [gradient if of_x else None, *of_weights, *of_biases]


def _differentiable(
    activations: Sequence[str], gradient: torch.Tensor, inputs: list[torch.Tensor], wanted: list[bool]
) -> Gradients:
    """Gradients that have gradients, by torch's own operations."""
    y, *parameters = inputs
    for activation, weight, bias in zip(activations, parameters, parameters[len(activations) :], strict=False):
        product = F.linear(y, weight, bias) if y.dim() == 2 else torch.baddbmm(bias.unsqueeze(1), y, weight.mT)
        y = _FORMS[activation].function(product)
    leaves = [each for each, is_wanted in zip(inputs, wanted, strict=True) if is_wanted]
    found = iter(torch.autograd.grad(y, leaves, gradient, create_graph=True))
    return [next(found) if is_wanted else None for is_wanted in wanted]
