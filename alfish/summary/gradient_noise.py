"""The gradient noise scale: how large a batch is worth its cost (McCandlish et al. 2018, "An Empirical Model of
Large-Batch Training").

A gradient over B samples is the true one, G, plus noise of covariance Sigma / B. With B far below tr(Sigma) / |G|^2 it
is mostly noise, and a larger batch pays; far above, it hardly changes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from math import isfinite

import torch

from alfish.summary.summary import Summary

_log = logging.getLogger(__name__)


def signal_and_noise(small: float, large: float, num_small: int, num_large: int) -> tuple[float, float]:
    """Estimates of |G|^2 and tr(Sigma), without bias (their appendix A.1).

    Args:
        small: squared norm of a gradient over `num_small` samples, or the mean of several.
        large: squared norm of one over `num_large` samples.
        num_small: B_small, at least 1.
        num_large: B_large, more than that.
    """
    signal = (num_large * large - num_small * small) / (num_large - num_small)
    noise = (small - large) / (1 / num_small - 1 / num_large)
    return signal, noise


class NoiseScaleEstimator:
    """Moving averages of |G|^2 and tr(Sigma), whose quotient is the simple noise scale.

    Each estimate alone is far off, and so is a quotient of two; the quotient of averages is not.

    Args:
        rate: share of the newest estimate; the first 1 / rate count equally.
    """

    def __init__(self, rate: float = 0.01) -> None:
        self._rate = rate
        self._count = 0
        self.signal = 0.0  # |G|^2
        self.noise = 0.0  # tr(Sigma)

    def add(self, signal: float, noise: float) -> None:
        """Takes an estimate in; one that is not finite, of an update that will be refused, is left out."""
        if not isfinite(signal + noise):
            return
        self._count += 1
        share = max(self._rate, 1 / self._count)
        self.signal += share * (signal - self.signal)
        self.noise += share * (noise - self.noise)

    @property
    def noise_scale(self) -> float | None:
        """B_simple, in samples; None while the gradient cannot be told from its noise."""
        return self.noise / self.signal if self.signal > 0 else None

    def state_dict(self) -> dict[str, float]:
        return {"count": self._count, "signal": self.signal, "noise": self.noise}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        self._count, self.signal, self.noise = int(state["count"]), state["signal"], state["noise"]


def halves(losses: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int] | None:
    """The losses of the two halves of a batch, and the number of samples in each.

    A sample is a sequence; of a single sequence, a step. Even and odd ones part, because neighbours in a stratified
    draw are alike. None when one half has no sample that counts.

    Args:
        losses: `[T, B]`.
        weight: `[T, B]`; 0 for steps that do not count.
    """
    if losses.shape[1] == 1:
        losses, weight = losses.T, weight.T
    number = losses.shape[1] // 2
    even, odd = (slice(start, 2 * number, 2) for start in (0, 1))
    totals = [weight[:, rows].sum() for rows in (even, odd)]
    if not all(totals):
        return None
    first, second = (
        (losses[:, rows] * weight[:, rows]).sum() / total for rows, total in zip((even, odd), totals, strict=True)
    )
    return first, second, number


def half_gradients(
    first: torch.Tensor, second: torch.Tensor, parameters: Sequence[torch.Tensor]
) -> tuple[float, float] | None:
    """Squared norms of the gradients of two losses: the mean of both, and that of their mean.

    None when the losses do not depend on the parameters. The graph is kept, and gradients that the parameters have
    stay as they are.
    """
    one, other = (
        torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True) for loss in (first, second)
    )
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if not pairs:
        return None
    small = torch.stack([(a.square().sum() + b.square().sum()) / 2 for a, b in pairs]).sum()
    large = torch.stack([((a + b) / 2).square().sum() for a, b in pairs]).sum()
    return float(small), float(large)


class GradientNoise:
    """The noise scale of each group of parameters, followed over a run.

    Args:
        parameters: by the name of their group.
    """

    def __init__(self, parameters: Mapping[str, Sequence[torch.Tensor]]) -> None:
        self._parameters = parameters
        self.estimators = {name: NoiseScaleEstimator() for name in parameters}
        self._has_warned = False

    def observe(self, losses: torch.Tensor | tuple[()], weight: torch.Tensor) -> None:
        """Takes the losses `[T, B]` of a mini batch in, before its own backward pass."""
        if isinstance(losses, tuple) or losses.shape != weight.shape or losses.numel() < 2:
            if not self._has_warned:
                self._has_warned = True
                _log.warning(
                    "TrainerConfig.summarize_gradient_noise_scale: needs a loss of each of two samples at least, which "
                    "a mini batch does not have. Raise TrainerConfig.mini_batch_size, or switch it off"
                )
            return
        split = halves(losses, weight)
        if split is None:
            return
        first, second, number = split
        for name, parameters in self._parameters.items():
            norms = half_gradients(first, second, parameters)
            if norms is not None:  # TD3 trains its actor in every second update
                self.estimators[name].add(*signal_and_noise(*norms, number, 2 * number))

    def summarize(self, summary: Summary) -> None:
        """What is known now, group by group."""
        for name, estimator in self.estimators.items():
            with summary.scope(f"GradientNoise/{name}"):
                summary.scalar("squared_gradient", estimator.signal)
                summary.scalar("variance", estimator.noise)
                if estimator.noise_scale is not None:
                    summary.scalar("noise_scale", estimator.noise_scale)

    def state_dict(self) -> dict[str, dict[str, float]]:
        return {name: estimator.state_dict() for name, estimator in self.estimators.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, float]]) -> None:
        for name, estimator in self.estimators.items():
            if name in state:
                estimator.load_state_dict(state[name])
