"""Stochastic gradient descent and RMSprop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import nn
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.optimizers.optimizer import LearningRate, Optimizer, State


@configurable
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if wanted.

    Args:
        lr: learning rate, a number or a scheduler.
        gradient_clipping: largest norm of the gradients; None does not clip.
        clip_by_global_norm: the norm is that of all gradients together; False: each parameter's own.
        momentum: share of the last change that is kept.
        nesterov: look ahead along the momentum.
        weight_decay: L2 penalty, added to the gradient.
    """

    def __init__(
        self,
        lr: LearningRate = 1e-2,
        gradient_clipping: Annotated[float, Range(above=0)] | None = None,
        clip_by_global_norm: bool = True,
        momentum: Annotated[float, Range(min=0, below=1)] = 0.0,
        nesterov: bool = False,
        weight_decay: Annotated[float, Range(min=0)] = 0.0,
    ) -> None:
        super().__init__(lr, gradient_clipping, clip_by_global_norm, weight_decay)
        if nesterov and not momentum:
            raise ConfigError("SGD.nesterov = True looks ahead along the momentum, and SGD.momentum is 0; try 0.9")
        self._momentum = momentum
        self._nesterov = nesterov

    def _new_state(self, parameter: nn.Parameter) -> State:
        return {"momentum": torch.zeros_like(parameter, requires_grad=False)} if self._momentum else {}

    def _formula(
        self, parameter: torch.Tensor, gradient: torch.Tensor, state: State, *factors: torch.Tensor
    ) -> tuple[torch.Tensor, State]:
        (lr,) = factors
        if self._weight_decay:
            gradient = gradient + self._weight_decay * parameter
        if not self._momentum:
            return parameter - lr * gradient, {}
        momentum = self._momentum * state["momentum"] + gradient
        direction = gradient + self._momentum * momentum if self._nesterov else momentum
        return parameter - lr * direction, {"momentum": momentum}

    def _update(
        self,
        parameters: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor],
        states: Sequence[State],
        lr: float,
        fused: bool,
        divisor: torch.Tensor | None,
    ) -> None:
        sgd(
            list(parameters),
            list(gradients),
            [state.get("momentum") for state in states],
            fused=fused,
            weight_decay=self._weight_decay,
            momentum=self._momentum,
            lr=lr,
            dampening=0.0,
            nesterov=self._nesterov,
            maximize=False,
        )


@configurable
class RMSprop(Optimizer):
    """RMSprop (Tieleman and Hinton, 2012), the optimizer of the first A3C and DQN papers.

    Args:
        lr: learning rate, a number or a scheduler.
        gradient_clipping: largest norm of the gradients; None does not clip.
        clip_by_global_norm: the norm is that of all gradients together; False: each parameter's own.
        alpha: decay rate of the average of the squared gradient.
        eps: added to the denominator, outside the square root.
        momentum: share of the last change that is kept.
        weight_decay: L2 penalty, added to the gradient.
    """

    def __init__(
        self,
        lr: LearningRate = 1e-2,
        gradient_clipping: Annotated[float, Range(above=0)] | None = None,
        clip_by_global_norm: bool = True,
        alpha: Annotated[float, Range(min=0, below=1)] = 0.99,
        eps: Annotated[float, Range(above=0)] = 1e-8,
        momentum: Annotated[float, Range(min=0, below=1)] = 0.0,
        weight_decay: Annotated[float, Range(min=0)] = 0.0,
    ) -> None:
        super().__init__(lr, gradient_clipping, clip_by_global_norm, weight_decay)
        self._alpha, self._eps, self._momentum = alpha, eps, momentum

    def _new_state(self, parameter: nn.Parameter) -> State:
        state = {"step": torch.zeros((), dtype=torch.float32), "square_avg": torch.zeros_like(parameter).detach()}
        if self._momentum:
            state["momentum"] = torch.zeros_like(parameter, requires_grad=False)
        return state

    def _formula(
        self, parameter: torch.Tensor, gradient: torch.Tensor, state: State, *factors: torch.Tensor
    ) -> tuple[torch.Tensor, State]:
        (lr,) = factors
        if self._weight_decay:
            gradient = gradient + self._weight_decay * parameter
        square = self._alpha * state["square_avg"] + (1 - self._alpha) * gradient * gradient
        changed = {"step": state["step"] + 1, "square_avg": square}
        direction = gradient / (square.sqrt() + self._eps)
        if self._momentum:
            changed["momentum"] = direction = self._momentum * state["momentum"] + direction
        return parameter - lr * direction, changed

    def _update(
        self,
        parameters: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor],
        states: Sequence[State],
        lr: float,
        fused: bool,
        divisor: torch.Tensor | None,
    ) -> None:
        # torch has no fused kernel for RMSprop; one call per operation over all parameters comes next.
        rmsprop(
            list(parameters),
            list(gradients),
            [state["square_avg"] for state in states],
            [],
            [state["momentum"] for state in states] if self._momentum else [],
            [state["step"] for state in states],
            foreach=True,
            lr=lr,
            alpha=self._alpha,
            eps=self._eps,
            weight_decay=self._weight_decay,
            momentum=self._momentum,
            centered=False,
        )
