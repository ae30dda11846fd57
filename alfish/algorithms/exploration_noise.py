"""Noise on the actions of deterministic policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any

import torch

from alfish import nest, specs
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.optimizers.schedulers import Scheduler, as_scheduler
from alfish.progress import Progress
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Nest

Deviation = Annotated[float, Range(min=0)] | Scheduler


class ActionBounds:
    """The bounds of one continuous action, and half of its range as the unit of noise: 1 where it has no bounds."""

    def __init__(self, spec: BoundedTensorSpec) -> None:
        self._low, self._high = (torch.tensor(bound, dtype=torch.float32) for bound in (spec.minimum, spec.maximum))
        half = (self._high - self._low) / 2
        self._unit = torch.where(torch.isfinite(half), half, 1.0)

    def disturbed(self, action: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """`noise` counts in half ranges; the result is within the bounds."""
        unit, low, high = (bound.to(action.device) for bound in (self._unit, self._low, self._high))
        return torch.addcmul(action, noise, unit).clamp(low, high)


class ExplorationNoise(ABC):
    """Adds noise to actions. What it remembers is a state that the caller carries, zeros where an episode starts."""

    def __init__(self, action_spec: Nest, state_spec: Nest) -> None:
        self.state_spec = state_spec
        self._bounds = nest.map(ActionBounds, action_spec)

    @abstractmethod
    def draw(self, action: Nest, state: Nest, generator: torch.Generator, progress: Progress) -> Nest:
        """Noise like `action`, in half ranges."""

    def __call__(self, action: Nest, state: Nest, generator: torch.Generator, progress: Progress) -> tuple[Nest, Nest]:
        """The disturbed actions `[B, ...]`, within their bounds, and the new state."""
        noise = self.draw(action, state, generator, progress)
        disturbed = nest.map(lambda bounds, *pair: bounds.disturbed(*pair), self._bounds, action, noise)
        return disturbed, noise if self.state_spec != () else ()

    def sometimes(self, action: Nest, chance: float, generator: torch.Generator, progress: Progress) -> Nest:
        """Actions of which each row is disturbed with probability `chance`, as at the start of an episode."""
        if chance == 0:
            return action
        first = nest.leaves(action)[0]
        at_rest = specs.zeros(self.state_spec, len(first), device=first.device)
        disturbed, _ = self(action, at_rest, generator, progress)
        coins = torch.rand(len(first), generator=generator, device=first.device) < chance
        return nest.where(coins, disturbed, action)


def _normal(action: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.empty_like(action).normal_(generator=generator)


@configurable
class GaussianNoise(ExplorationNoise):
    """Independent normal noise at every step.

    Args:
        action_spec: nest of specs of the continuous action.
        stddev: standard deviation in half ranges of the action, a number or a scheduler.
    """

    def __init__(self, action_spec: Nest, stddev: Deviation = 0.1) -> None:
        super().__init__(action_spec, state_spec=())
        self._stddev = as_scheduler(stddev)

    def draw(self, action: Nest, state: Nest, generator: torch.Generator, progress: Progress) -> Nest:
        stddev = self._stddev(progress)
        return nest.map(lambda leaf: _normal(leaf, generator) * stddev, action)


@configurable
class OUNoise(ExplorationNoise):
    """Noise that is similar from step to step, an Ornstein-Uhlenbeck process.

    `x = (1 - damping) * x + stddev * N(0, 1)`, from 0 at the start of an episode.

    Args:
        action_spec: nest of specs of the continuous action.
        stddev: standard deviation of one step in half ranges of the action, a number or a scheduler.
        damping: share of the noise that is lost at every step; 1 is Gaussian noise.
    """

    def __init__(
        self,
        action_spec: Nest,
        stddev: Deviation = 0.2,
        damping: Annotated[float, Range(min=0, max=1)] = 0.15,
    ) -> None:
        super().__init__(action_spec, state_spec=nest.map(lambda spec: TensorSpec(spec.shape), action_spec))
        self._stddev = as_scheduler(stddev)
        self._damping = damping

    def draw(self, action: Nest, state: Nest, generator: torch.Generator, progress: Progress) -> Nest:
        stddev, kept = self._stddev(progress), 1 - self._damping

        def step(leaf: torch.Tensor, before: Any) -> torch.Tensor:
            return before * kept + _normal(leaf, generator) * stddev

        return nest.map(step, action, state)
