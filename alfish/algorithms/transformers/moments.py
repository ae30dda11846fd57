"""Mean and variance of a stream, exact over everything seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from alfish.collective import Collective

_SMALLEST_VARIANCE = 1e-12


class RunningMoments(nn.Module):
    """Merges batches with the parallel form of Welford's algorithm (Chan et al. 1979), in double precision.

    Args:
        shape: of one sample; every element has its own mean and variance.
    """

    count: torch.Tensor
    mean: torch.Tensor
    deviations: torch.Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("deviations", torch.zeros(shape, dtype=torch.float64))  # sum of squares, from the mean

    @property
    def variance(self) -> torch.Tensor:
        """Of the population; 0 before the first sample."""
        return self.deviations / self.count.clamp(min=1)

    @property
    def inverse_std(self) -> torch.Tensor:
        """1 / standard deviation; 1 for what has never changed, whose scale is not known."""
        variance = self.variance
        return torch.where(variance > _SMALLEST_VARIANCE, variance.rsqrt(), 1.0)

    def update(self, batch: torch.Tensor) -> None:
        """Takes in samples `[N, *shape]`."""
        size, count = len(batch), self.count.item()
        if size == 0:
            return
        total = count + size
        variance, mean = torch.var_mean(batch.double(), 0, correction=0)
        delta = mean - self.mean
        self.deviations.add_(variance, alpha=size).addcmul_(delta, delta, value=count * size / total)
        self.mean.add_(delta, alpha=size / total)
        self.count.fill_(total)

    @property
    def moments(self) -> Moments:
        """A copy of where it is."""
        return Moments(self.count.clone(), self.mean.clone(), self.deviations.clone())

    @moments.setter
    def moments(self, moments: Moments) -> None:
        self.count.copy_(moments.count)
        self.mean.copy_(moments.mean)
        self.deviations.copy_(moments.deviations)


@dataclass(frozen=True)
class Moments:
    """Of a number of samples."""

    count: torch.Tensor
    mean: torch.Tensor
    deviations: torch.Tensor  # sum of squares, from the mean

    def joined(self, other: Moments) -> Moments:
        """Of the samples of both."""
        total = (self.count + other.count).clamp(min=1)
        delta = other.mean - self.mean
        between = delta.square() * (self.count * other.count / total)
        mean = self.mean + delta * (other.count / total)
        return Moments(self.count + other.count, mean, self.deviations + other.deviations + between)

    def without(self, earlier: Moments) -> Moments:
        """Of the samples that came after `earlier`."""
        count = self.count - earlier.count
        mean = earlier.mean + (self.mean - earlier.mean) * (self.count / count.clamp(min=1))
        between = (mean - earlier.mean).square() * (earlier.count * count / self.count.clamp(min=1))
        return Moments(count, mean, (self.deviations - earlier.deviations - between).clamp(min=0))


@contextmanager
def shared_moments(module: nn.Module, ranks: Collective) -> Iterator[None]:
    """What each rank sees inside the block is afterwards in the moments of all of them, which agree to the bit.

    Args:
        module: all moments below it are meant. They must agree at the beginning.
        ranks: that train together.
    """
    running = [each for each in module.modules() if isinstance(each, RunningMoments)] if ranks.size > 1 else []
    before = [each.moments for each in running]
    yield
    for each, base in zip(running, before, strict=True):
        new = each.moments.without(base)
        table = torch.zeros(ranks.size, 1 + 2 * base.mean.numel(), dtype=torch.float64, device=base.mean.device)
        table[ranks.rank] = torch.cat([new.count.view(1), new.mean.flatten(), new.deviations.flatten()])
        ranks.sum_(table)
        merged = base
        for row in table:
            count, mean, deviations = row.split([1, base.mean.numel(), base.mean.numel()])
            merged = merged.joined(Moments(count[0], mean.view_as(base.mean), deviations.view_as(base.mean)))
        each.moments = merged
