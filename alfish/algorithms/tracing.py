"""What an algorithm must not do while a graph is made of it, and the check that it did not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import nn

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
        self.progress = _Watched(progress)
        self.summary = _Watched(Summary.disabled(), but_for=("enabled",))
        self.buffers = [(module, dict(module._buffers)) for module in algorithm.modules()]

    def check(self, what: str) -> None:
        """
        Raises:
            CannotCompile: `what` is not a function of tensors and random numbers alone.
        """
        if self.progress.was_used:
            raise CannotCompile(f"{what} changes with the progress of the run: it has a scheduler")
        for module, then in self.buffers:
            if any(module._buffers[name] is not then[name] for name in then):
                raise CannotCompile(f"{type(module).__name__} makes new tensors of its own every time")


class _Watched:
    def __init__(self, value: Any, but_for: tuple[str, ...] = ()) -> None:
        self._value = value
        self._but_for = but_for
        self.was_used = False

    def __getattr__(self, name: str) -> Any:
        self.was_used = self.was_used or name not in self._but_for
        return getattr(self._value, name)
