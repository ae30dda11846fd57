"""Parameters as parts of one flat tensor, so that Adam, clipping and target updates are one operation each."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

Shapes = Sequence[tuple[int, ...]]


def initial(shapes: Shapes) -> Tensor:
    """Matrices `[..., in, out]` and filters with normal numbers of matching size, everything else 0."""
    parts = []
    for shape in shapes:
        fan_in = prod(shape[1:]) if len(shape) == 4 else shape[-2] if len(shape) > 1 else 0
        parts.append(torch.randn(prod(shape)) / fan_in**0.5 if fan_in > 1 else torch.zeros(prod(shape)))
    return torch.cat(parts)


def split(theta: Tensor, shapes: Shapes) -> list[Tensor]:
    """Views of `theta`, one for each shape."""
    parts = theta.split([prod(shape) for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


class Leaves:
    """Eager learning: leaves of autograd that share memory with `theta`, their gradients with `grad`."""

    def __init__(self, theta: Tensor, shapes: Shapes, learning_rate: float, eps: float = 1e-8) -> None:
        self.grad = torch.zeros_like(theta)
        self.parts = [part.detach().requires_grad_() for part in split(theta, shapes)]
        for part, grad in zip(self.parts, split(self.grad, shapes), strict=True):
            part.grad = grad
        whole = theta.detach().requires_grad_()
        whole.grad = self.grad
        self._adam = torch.optim.Adam([whole], lr=learning_rate, eps=eps, fused=True)

    def step(self, loss: Tensor, max_norm: float | None = None) -> None:
        self.grad.zero_()
        torch.autograd.backward(loss, inputs=self.parts)
        if max_norm is not None:
            self.grad.mul_((max_norm / (self.grad.norm() + 1e-6)).clamp_(max=1.0))
        self._adam.step()


class Moments:
    """Adam for a compiled update: everything it changes is a tensor that is passed in."""

    def __init__(self, theta: Tensor) -> None:
        self.mean, self.square, self.count = torch.zeros_like(theta), torch.zeros_like(theta), torch.zeros(())

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.mean, self.square, self.count


def adam_(
    theta: Tensor, grad: Tensor, moments: tuple[Tensor, Tensor, Tensor], learning_rate: float, eps: float = 1e-8
) -> None:
    """Adam in place, for a graph that is compiled."""
    mean, square, count = moments
    count.add_(1)
    mean.lerp_(grad, 0.1)
    square.lerp_(grad * grad, 0.001)
    scale = learning_rate / (1 - 0.9**count)
    theta.sub_(scale * mean / ((square / (1 - 0.999**count)).sqrt() + eps))
