"""Shapes, dtypes and bounds of what flows between environments, networks and replay.

A spec is a nest of `TensorSpec`. Discrete actions are `BoundedTensorSpec` of an integer dtype whose bounds are
inclusive, as in ALF: `Discrete(3)` becomes shape `()`, int64, 0..2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from alfish import nest
from alfish.errors import ConfigError

_TORCH_DTYPE = {
    "float16": torch.float32,
    "float32": torch.float32,
    "float64": torch.float32,  # networks compute in float32; half the memory, no silent promotion
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint16": torch.int32,
    "uint32": torch.int64,
    "bool": torch.bool,
}


@dataclass(frozen=True)
class TensorSpec:
    """Shape (without batch) and dtype of one tensor."""

    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize

    @property
    def is_discrete(self) -> bool:
        return not self.dtype.is_floating_point

    def zeros(self, *outer: int, device: torch.device | str = "cpu") -> torch.Tensor:
        return torch.zeros(*outer, *self.shape, dtype=self.dtype, device=device)


@dataclass(frozen=True, eq=False)
class BoundedTensorSpec(TensorSpec):
    """A tensor whose values lie between `minimum` and `maximum`, both inclusive, of the spec's shape."""

    minimum: np.ndarray = field(default_factory=lambda: np.zeros(()))
    maximum: np.ndarray = field(default_factory=lambda: np.ones(()))

    def __post_init__(self) -> None:
        for name in ("minimum", "maximum"):
            bound = np.broadcast_to(np.asarray(getattr(self, name)), self.shape).copy()
            bound.setflags(write=False)
            object.__setattr__(self, name, bound)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundedTensorSpec)
            and (self.shape, self.dtype) == (other.shape, other.dtype)
            and np.array_equal(self.minimum, other.minimum)
            and np.array_equal(self.maximum, other.maximum)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    @property
    def num_values(self) -> int:
        """How many values a discrete scalar can take; every element must have the same number."""
        counts = np.unique(self.maximum - self.minimum + 1)
        if not self.is_discrete or len(counts) != 1:
            raise ValueError(f"{self} has no single number of values")
        return int(counts[0])

    @property
    def is_bounded(self) -> bool:
        return bool(np.isfinite(self.minimum).all() and np.isfinite(self.maximum).all())

    def sample(self, *outer: int, generator: torch.Generator | None = None) -> torch.Tensor:
        """Uniform values; unbounded elements are standard normal."""
        shape = (*outer, *self.shape)
        device = generator.device if generator is not None else "cpu"
        low = torch.tensor(self.minimum, dtype=torch.float64, device=device)
        high = torch.tensor(self.maximum, dtype=torch.float64, device=device)
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64, device=device)
        if self.is_discrete:
            return torch.floor(low + uniform * (high - low + 1)).minimum(high).to(self.dtype)
        if self.is_bounded:
            return (low + uniform * (high - low)).to(self.dtype)
        normal = torch.randn(shape, generator=generator, dtype=torch.float64, device=device)
        bounded = torch.isfinite(low) & torch.isfinite(high)
        inside = torch.nan_to_num(low) + uniform * (torch.nan_to_num(high) - torch.nan_to_num(low))
        return torch.where(bounded, inside, normal.clamp(low, high)).to(self.dtype)


def from_space(space: gym.Space[Any]) -> nest.Nest:
    """The spec of a Gymnasium space; Dict and Tuple become dict and tuple."""
    match space:
        case gym.spaces.Discrete():
            return BoundedTensorSpec((), torch.int64, np.asarray(space.start), np.asarray(space.start + space.n - 1))
        case gym.spaces.MultiDiscrete():
            start = np.asarray(space.start)
            return BoundedTensorSpec(space.shape, torch.int64, start, start + space.nvec - 1)
        case gym.spaces.MultiBinary():
            return BoundedTensorSpec(space.shape, torch.int64, np.asarray(0), np.asarray(1))
        case gym.spaces.Box():
            return BoundedTensorSpec(space.shape, _TORCH_DTYPE[space.dtype.name], space.low, space.high)
        case gym.spaces.Dict():
            return {key: from_space(child) for key, child in space.spaces.items()}
        case gym.spaces.Tuple():
            return tuple(from_space(child) for child in space.spaces)
    raise ConfigError(
        f"{type(space).__name__} spaces are not supported: alfish takes Box, Discrete, MultiDiscrete, MultiBinary, "
        "and Dict and Tuple of these. Wrap the environment with a gymnasium.wrappers transform "
        "(create_environment.wrappers)."
    )


def zeros(spec: nest.Nest, *outer: int, device: torch.device | str = "cpu") -> nest.Nest:
    """Zeros of a nest of specs, with `outer` dimensions in front."""
    return nest.map(lambda leaf: leaf.zeros(*outer, device=device), spec)


def sample(spec: nest.Nest, *outer: int, generator: torch.Generator | None = None) -> nest.Nest:
    """Uniform samples of a nest of bounded specs."""
    return nest.map(lambda leaf: leaf.sample(*outer, generator=generator), spec)


def nbytes(spec: nest.Nest) -> int:
    """Bytes of one row."""
    return sum(leaf.nbytes for leaf in nest.leaves(spec))
