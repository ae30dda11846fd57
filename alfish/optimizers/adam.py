"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import torch
from torch import nn
from torch.optim.adam import adam

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.optimizers.optimizer import LearningRate, Optimizer, State

Beta = Annotated[float, Range(min=0, below=1)]


class _AdamFamily(Optimizer):
    _kernel_divides = True
    _decoupled_weight_decay: bool
    _betas: tuple[float, float]
    _eps: float

    def _new_state(self, parameter: nn.Parameter) -> State:
        return {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter, requires_grad=False),
            "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
        }

    def _factors(self, state: State, lr: torch.Tensor) -> list[torch.Tensor]:
        # In float64, as the kernels have it: 1 - 0.999 has four digits in float32.
        step = (state["step"] + 1).double()
        corrections = [1 - beta**step for beta in self._betas]
        factors = [lr / corrections[0], corrections[1].sqrt()]
        if self._decoupled_weight_decay:
            factors.append(1 - lr * self._weight_decay)
        return [factor.float() for factor in factors]

    def _formula(
        self, parameter: torch.Tensor, gradient: torch.Tensor, state: State, *factors: torch.Tensor
    ) -> tuple[torch.Tensor, State]:
        beta1, beta2 = self._betas
        scale, root, *kept = factors
        if kept:
            parameter = parameter * kept[0]
        elif self._weight_decay:
            gradient = gradient + self._weight_decay * parameter
        average = torch.lerp(state["exp_avg"], gradient, 1 - beta1)
        square = state["exp_avg_sq"] * beta2 + gradient * gradient * (1 - beta2)
        changed = parameter - scale * average / (square.sqrt() / root + self._eps)
        return changed, {"step": state["step"] + 1, "exp_avg": average, "exp_avg_sq": square}

    def _update(
        self,
        parameters: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor],
        states: Sequence[State],
        lr: float,
        fused: bool,
        divisor: torch.Tensor | None,
    ) -> None:
        parameters, gradients = list(parameters), list(gradients)
        averages = [state["exp_avg"] for state in states]
        squares = [state["exp_avg_sq"] for state in states]
        steps = [state["step"] for state in states]
        options: dict[str, Any] = {
            "lr": lr,
            "beta1": self._betas[0],
            "beta2": self._betas[1],
            "weight_decay": self._weight_decay,
            "eps": self._eps,
            "amsgrad": False,
            "maximize": False,
        }
        if fused:
            # What `adam` does as well, but sorting the parameters by device and dtype takes it longer than the kernel.
            # A tensor of one is several times faster than a number, which every addition would make a tensor of.
            torch._foreach_add_(steps, _one(steps[0].device), alpha=1.0)
            kernel = torch._fused_adamw_ if self._decoupled_weight_decay else torch._fused_adam_
            kernel(parameters, gradients, averages, squares, [], steps, grad_scale=divisor, found_inf=None, **options)
        else:
            decoupled = self._decoupled_weight_decay
            adam(parameters, gradients, averages, squares, [], steps, decoupled_weight_decay=decoupled, **options)


@cache
def _one(device: torch.device) -> torch.Tensor:
    return torch.ones((), device=device)


@configurable
class Adam(_AdamFamily):
    """Adam (Kingma and Ba, 2015).

    Args:
        lr: learning rate, a number or a scheduler.
        gradient_clipping: largest norm of the gradients; None does not clip.
        clip_by_global_norm: the norm is that of all gradients together; False: each parameter's own.
        betas: decay rates of the averages of the gradient and of its square.
        eps: added to the denominator.
        weight_decay: L2 penalty, added to the gradient.
    """

    _decoupled_weight_decay = False

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        gradient_clipping: Annotated[float, Range(above=0)] | None = None,
        clip_by_global_norm: bool = True,
        betas: tuple[Beta, Beta] = (0.9, 0.999),
        eps: Annotated[float, Range(above=0)] = 1e-8,
        weight_decay: Annotated[float, Range(min=0)] = 0.0,
    ) -> None:
        super().__init__(lr, gradient_clipping, clip_by_global_norm, weight_decay)
        self._betas, self._eps = betas, eps


@configurable
class AdamW(_AdamFamily):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Args:
        lr: learning rate, a number or a scheduler.
        gradient_clipping: largest norm of the gradients; None does not clip.
        clip_by_global_norm: the norm is that of all gradients together; False: each parameter's own.
        betas: decay rates of the averages of the gradient and of its square.
        eps: added to the denominator.
        weight_decay: share of a parameter that is taken away per step, times the learning rate.
    """

    _decoupled_weight_decay = True

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        gradient_clipping: Annotated[float, Range(above=0)] | None = None,
        clip_by_global_norm: bool = True,
        betas: tuple[Beta, Beta] = (0.9, 0.999),
        eps: Annotated[float, Range(above=0)] = 1e-8,
        weight_decay: Annotated[float, Range(min=0)] = 1e-2,
    ) -> None:
        super().__init__(lr, gradient_clipping, clip_by_global_norm, weight_decay)
        self._betas, self._eps = betas, eps
