"""The optimizer that all others extend: ownership of parameters, clipping, the guard, the checkpoint.

State is kept by parameter name, so that a checkpoint fits whatever the order in which parameters were added.
Steps go through torch's functional optimizers with their fused kernels: the bookkeeping of `torch.optim.Adam`
costs more than the arithmetic for the small networks of reinforcement learning.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from torch import nn

from alfish.config.ranges import Range
from alfish.errors import CheckpointMisfit
from alfish.optimizers.schedulers import Scheduler, as_scheduler
from alfish.progress import Progress

LearningRate = Annotated[float, Range(min=0)] | Scheduler
State = dict[str, torch.Tensor]  # of one parameter, e.g. {"step": ..., "exp_avg": ..., "exp_avg_sq": ...}


class GradientNorms(NamedTuple):
    """As tensors; before clipping."""

    total: torch.Tensor  # of all gradients together
    each: list[torch.Tensor]

    @classmethod
    def of(cls, gradients: Sequence[torch.Tensor], like: torch.Tensor) -> GradientNorms:
        each = [gradient.square().sum().sqrt() for gradient in gradients]
        total = torch.stack(each).square().sum().sqrt() if each else torch.zeros_like(like, dtype=torch.float32)
        return cls(total, each)


class Gradients(NamedTuple):
    """What `backward` left in the parameters of an optimizer."""

    names: list[str]
    tensors: list[torch.Tensor]
    norms: list[float]  # of each, where each is clipped; else one, of all together

    @property
    def norm(self) -> float:
        """Of all together."""
        return math.hypot(*self.norms)


# Devices for which torch has fused optimizer kernels.
_FUSED_DEVICES = frozenset({"cpu", "cuda"})


class Optimizer(ABC):
    """Changes the parameters it was given, down their gradients.

    Made without parameters, since a .gin file names an optimizer before there is a network.

    >>> from alfish.optimizers.adam import Adam
    >>> layer = nn.Linear(2, 1)
    >>> optimizer = Adam(lr=1e-3, gradient_clipping=0.5)
    >>> optimizer.add_parameters(dict(layer.named_parameters()))
    >>> layer(torch.ones(2)).sum().backward()
    >>> gradient_norm = optimizer.step(Progress())
    """

    _kernel_divides: ClassVar[bool] = False  # the fused one clips on its way, which saves a walk through the gradients

    def __init__(
        self, lr: LearningRate, gradient_clipping: float | None, clip_by_global_norm: bool, weight_decay: float
    ) -> None:
        self._lr = as_scheduler(lr)
        self._gradient_clipping = gradient_clipping
        self._clip_by_global_norm = clip_by_global_norm
        self._weight_decay = weight_decay
        self._parameters: dict[str, nn.Parameter] = {}
        self._states: dict[str, State] = {}

    @property
    def named_parameters(self) -> Mapping[str, nn.Parameter]:
        return self._parameters

    @property
    def states(self) -> Mapping[str, State]:
        """By parameter; another object after `load_state_dict`."""
        return self._states

    def add_parameters(self, named_parameters: Mapping[str, nn.Parameter]) -> None:
        """Takes parameters into care; names must be new, and so must the parameters."""
        known = {id(parameter): name for name, parameter in self._parameters.items()}
        for name, parameter in named_parameters.items():
            if name in self._parameters or id(parameter) in known:
                raise ValueError(f"{self} has {name} already, as {known.get(id(parameter), name)}")
            known[id(parameter)] = name
            self._parameters[name] = parameter

    def current_lr(self, progress: Progress) -> float:
        return self._lr(progress)

    def zero_grad(self) -> None:
        """Forgets the gradients. A parameter that gets none afterwards is left alone by `step`."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def step(self, progress: Progress) -> float:
        """Changes the parameters; returns the global norm of their gradients before clipping.

        When the norm is not finite, nothing is changed, neither parameters nor optimizer state: the caller decides.
        """
        return step_together({"": self}, progress)[""]

    def gradients(self) -> Gradients:
        """Of the parameters that have one, as they are now."""
        graded = [(name, p.grad) for name, p in self._parameters.items() if p.grad is not None]
        tensors = [gradient for _, gradient in graded]
        norms = _norms(tensors) if self._clips_each else [_norm(tensors)]
        return Gradients([name for name, _ in graded], tensors, norms)

    @torch.no_grad()
    def apply(self, gradients: Gradients, progress: Progress) -> None:
        """The second half of `step`, given `gradients()`, whose norms must be finite."""
        if not gradients.tensors:
            return
        parameters = [self._parameters[name] for name in gradients.names]
        states = [self._state(name) for name in gradients.names]
        fused = parameters[0].device.type in _FUSED_DEVICES
        divisor = None
        if fused and self._kernel_divides and not self._clips_each:
            divisor = self._excess(gradients)
        else:
            self.clip(gradients)
        self._update(parameters, gradients.tensors, states, self._lr(progress), fused, divisor)

    def clip(self, gradients: Gradients) -> None:
        """Clips them in place."""
        limit, norms, tensors = self._gradient_clipping, gradients.norms, gradients.tensors
        if limit is None or not tensors or max(norms) <= limit:
            return
        # As tensors of their dtype: of a number, one would be made for every gradient.
        factors = tensors[0].new_tensor([min(1.0, limit / norm) if norm else 1.0 for norm in norms])
        torch._foreach_mul_(tensors, factors.unbind() if self._clips_each else factors[0])

    def _excess(self, gradients: Gradients) -> torch.Tensor | None:
        """How many times the norm of all is larger than it may be; None when it is not."""
        excess = 0.0 if self._gradient_clipping is None else gradients.norm / self._gradient_clipping
        device = gradients.tensors[0].device
        return torch.scalar_tensor(excess, dtype=torch.float32, device=device) if excess > 1 else None

    @property
    def _clips_each(self) -> bool:
        return self._gradient_clipping is not None and not self._clip_by_global_norm

    def make_states(self) -> None:
        """Of all parameters, at once; `changes` needs them."""
        for name in self._parameters:
            self._state(name)

    def changes(
        self, gradients: Mapping[str, torch.Tensor], norms: GradientNorms, lr: torch.Tensor, is_made: torch.Tensor
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """What a step changes, as a pure function of tensors, for a graph that is compiled.

        Returns parameters and parts of their state, each with its new value.

        Args:
            gradients: by the name of the parameter.
            norms: of these gradients.
            lr: float64, so that it is as exact as the number of `step`.
            is_made: bool; False leaves everything as it is.
        """
        factors = [self._factors(self._states[name], lr) for name in gradients]
        if self._gradient_clipping is not None:
            measured = [norms.total] * len(gradients) if self._clip_by_global_norm else norms.each
            clips = [(self._gradient_clipping / norm).clamp(max=1.0) for norm in measured]
            factors = [[clip, *each] for clip, each in zip(clips, factors, strict=True)]
        made, *numbers = _stored([is_made.float(), *(number for each in factors for number in each)])
        rest = iter(numbers)
        is_made = made != 0
        changes: list[tuple[torch.Tensor, torch.Tensor]] = []
        for (name, gradient), each in zip(gradients.items(), factors, strict=True):
            own = [next(rest) for _ in each]
            if self._gradient_clipping is not None:
                gradient = gradient * own.pop(0)
            parameter, state = self._parameters[name].detach(), self._states[name]
            new_parameter, new_state = self._formula(parameter, gradient, state, *own)
            pairs = [(parameter, new_parameter), *((state[key], new) for key, new in new_state.items())]
            changes.extend((old, torch.where(is_made, new, old)) for old, new in pairs)
        return changes

    def _factors(self, state: State, lr: torch.Tensor) -> list[torch.Tensor]:
        """What `_formula` needs to know of the learning rate: float32 numbers, the same for all of a parameter."""
        return [lr.float()]

    def _formula(
        self, parameter: torch.Tensor, gradient: torch.Tensor, state: State, *factors: torch.Tensor
    ) -> tuple[torch.Tensor, State]:
        """The parameter and its state after a step: what `_update` does, without changing anything."""
        raise NotImplementedError(f"{type(self).__name__} has no _formula")

    @abstractmethod
    def _update(
        self,
        parameters: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor],
        states: Sequence[State],
        lr: float,
        fused: bool,
        divisor: torch.Tensor | None,
    ) -> None:
        """Changes parameters and states in place.

        Args:
            parameters: to change.
            gradients: of them.
            states: of them.
            lr: learning rate.
            fused: whether torch has fused kernels for their device.
            divisor: of the gradients, where `_kernel_divides`; None: they are as they should be.
        """

    @abstractmethod
    def _new_state(self, parameter: nn.Parameter) -> State:
        """The state of a parameter before its first step."""

    def _state(self, name: str) -> State:
        if name not in self._states:
            self._states[name] = self._new_state(self._parameters[name])
        return self._states[name]

    def state_dict(self) -> dict[str, dict[str, torch.Tensor]]:
        """Parameter name to its state; parameters that were never changed have none."""
        return {name: dict(state) for name, state in self._states.items()}

    def load_state_dict(self, state_dict: Mapping[str, Mapping[str, Any]]) -> None:
        """The inverse of `state_dict`; the parameters must have been added before."""
        unknown = [name for name in state_dict if name not in self._parameters]
        if unknown:
            raise CheckpointMisfit(
                f"{self}: the checkpoint has optimizer state for {', '.join(unknown[:6])}, which this optimizer does "
                "not own. Was the network or the assignment of optimizers changed?"
            )
        loaded: dict[str, State] = {}
        for name, saved in state_dict.items():
            parameter = self._parameters[name]
            fresh = self._new_state(parameter)
            found = {key: tuple(value.shape) for key, value in saved.items()}
            wanted = {key: tuple(value.shape) for key, value in fresh.items()}
            if found != wanted:
                raise CheckpointMisfit(f"{self}: the optimizer state of {name} is {found}, expected {wanted}")
            loaded[name] = {key: saved[key].to(fresh[key], copy=True) for key in fresh}
        self._states = loaded

    def __repr__(self) -> str:
        clipping = "" if self._gradient_clipping is None else f", gradient_clipping={self._gradient_clipping:g}"
        lr = repr(self._lr) if type(self._lr).__repr__ is not object.__repr__ else type(self._lr).__name__
        return f"{type(self).__name__}(lr={lr}{clipping})"


def _stored(numbers: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The same numbers, now in memory: else a compiler may compute each anew for every few elements it is used for."""
    return torch.stack(list(numbers)).unbind()


# Elements: fewer are copied faster than each of several norms is asked for.
_SMALL = 50_000


def _norm(tensors: Sequence[torch.Tensor]) -> float:
    """Of all together."""
    if len(tensors) > 1 and sum(tensor.numel() for tensor in tensors) < _SMALL:
        return float(torch.linalg.vector_norm(torch._C._nn.flatten_dense_tensors(list(tensors))))
    return math.hypot(*_norms(tensors))


def _norms(tensors: Sequence[torch.Tensor]) -> list[float]:
    return torch.stack(torch._foreach_norm(list(tensors))).tolist() if tensors else []


def step_together(optimizers: Mapping[str, Optimizer], progress: Progress) -> dict[str, float]:
    """One step of several optimizers, all or none; returns the global gradient norm of each.

    When one norm is not finite, no parameter of any of them changes.
    """
    gradients = {name: optimizer.gradients() for name, optimizer in optimizers.items()}
    totals = {name: each.norm for name, each in gradients.items()}
    if all(math.isfinite(total) for total in totals.values()):
        for name, optimizer in optimizers.items():
            optimizer.apply(gradients[name], progress)
    return totals
