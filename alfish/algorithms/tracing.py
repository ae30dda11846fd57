"""What an algorithm must not do while a graph is made of it, and the check that it did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from alfish.algorithms.compilation import CannotCompile
from alfish.progress import Progress
from alfish.summary.summary import Summary

if TYPE_CHECKING:
    from alfish.algorithms.rl_algorithm import RLAlgorithm


@contextmanager
def traced(algorithm: RLAlgorithm) -> Iterator[Watch]:
    """Without summaries inside the block, and with a watch over the algorithm, to be asked there."""
    parts, progress, summary = list(algorithm.tree()), algorithm.progress, algorithm.summary
    enabled = summary.enabled
    watch = Watch(algorithm, progress)
    summary.enabled = False  # also for those who have it from elsewhere
    _give(parts, watch.progress, watch.summary)
    try:
        yield watch
    finally:
        summary.enabled = enabled
        _give(parts, progress, summary)
        for module, buffers in watch.buffers:
            module._buffers.update(buffers)


def _give(parts: list[Any], progress: Any, summary: Any) -> None:
    for part in parts:
        part.progress, part.summary = progress, summary


class Watch:
    """Sees what an algorithm reads and writes besides tensors."""

    def __init__(self, algorithm: nn.Module, progress: Progress) -> None:
        self.followed: list[FollowedNumber] = []  # what schedulers were asked for
        self.progress = _WatchedProgress(progress, next(algorithm.parameters()).device, self.followed)
        self.summary = _Watched(Summary.disabled(), but_for=("enabled",))
        self.buffers = [(module, dict(module._buffers)) for module in algorithm.modules()]

    def check(self, what: str) -> None:
        """
        Raises:
            CannotCompile: `what` is not a function of tensors and random numbers alone.
        """
        if self.progress.was_used:
            raise CannotCompile(f"{what} changes with the progress of the run in another way than by a scheduler")
        for module, then in self.buffers:
            if any(module._buffers[name] is not then[name] for name in then):
                raise CannotCompile(f"{type(module).__name__} makes new tensors of its own every time")


class FollowedNumber:
    """A number that changes while the run goes on, as the tensor that a graph reads: no value needs another graph."""

    def __init__(self, value: Callable[[Progress], float], device: torch.device) -> None:
        # Float64, so that it is as exact as the number.
        self.tensor = torch.zeros((), dtype=torch.float64, device=device)
        self._value = value
        self._now = 0.0

    def refresh(self, progress: Progress) -> None:
        now = self._value(progress)
        if now != self._now:
            self.tensor.fill_(now)
            self._now = now


class _Watched:
    def __init__(self, value: Any, but_for: tuple[str, ...] = ()) -> None:
        self._value = value
        self._but_for = but_for
        self.was_used = False

    def __getattr__(self, name: str) -> Any:
        self.was_used = self.was_used or name not in self._but_for
        return getattr(self._value, name)


class _WatchedProgress(_Watched):
    def __init__(self, progress: Progress, device: torch.device, followed: list[FollowedNumber]) -> None:
        super().__init__(progress)
        self._device = device
        self._followed = followed

    def follow(self, field: str, at: Callable[[float], float]) -> torch.Tensor:
        with _disable_current_modes():  # a tensor of its own, not one of the graph that is being made
            number = FollowedNumber(lambda progress: progress.follow(field, at), self._device)
            number.refresh(self._value)
        self._followed.append(number)
        return number.tensor.clone()  # the graph's own, which nobody can take a number from as of the tensor itself
