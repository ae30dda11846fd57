"""Mean and variance of a stream, exact over everything seen."""

from __future__ import annotations

import torch
from torch import nn

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
