"""The object that algorithms hand their numbers to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import fmean
from typing import Any

import torch

from alfish.progress import Progress
from alfish.summary.writer import Moment, Writer

Value = float | torch.Tensor | Callable[[], float | torch.Tensor]


class Summary:
    """Collects scalars and histograms while `enabled`, and writes them when the trainer says so.

    >>> summary = Summary([], Progress())
    >>> summary.enabled = True
    >>> with summary.scope("Loss"):
    ...     summary.scalar("value", 0.5)
    >>> summary.write()
    {'Loss/value': 0.5}

    While it is not enabled, nothing is computed: callables are not called, tensors not read.

    Args:
        writers: where everything goes.
        progress: of the run; its iterations and env_steps are written beside each value.
        clock: a monotonic clock.
    """

    def __init__(
        self, writers: Sequence[Writer], progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.enabled = False
        self._writers = tuple(writers)
        self._progress = progress
        self._clock = clock
        self._started = clock()
        self._scope = ""
        self._collected = _Collected()
        self._updates: list[tuple[Moment, _Collected]] = []

    @classmethod
    def disabled(cls) -> Summary:
        """One that writes nothing, for an algorithm without a trainer."""
        return cls([], Progress())

    @property
    def seconds(self) -> float:
        """Of training so far, over all its sessions."""
        return self._clock() - self._started

    def scope(self, name: str) -> AbstractContextManager[None]:
        """Inside the block, names are below `name/`. Scopes nest."""
        return self._inside(name) if self.enabled else nullcontext()

    def scalar(self, name: str, value: Value) -> None:
        """A number, a tensor (its mean is taken), or a callable that returns one of them.

        Given several times before the next write, as by several mini batches, the mean is written. A name that
        begins with `/` ignores the scope.
        """
        if self.enabled:
            self._collected.scalars.setdefault(self._tag(name), []).append(_reduced(value))

    def histogram(self, name: str, values: torch.Tensor | None) -> None:
        """The distribution of the values of a tensor; None, such as a missing gradient, is left out."""
        if self.enabled and values is not None:
            self._collected.histograms[self._tag(name)] = values.detach().clone()

    @contextmanager
    def of_update(self) -> Iterator[None]:
        """What is given inside the block belongs to the newest update alone, and is written against its number."""
        progress, around = self._progress, self._collected
        self._collected = _Collected()
        try:
            yield
        finally:
            if self._collected.scalars or self._collected.histograms:
                # An iteration counts when it is over, and this one is under way.
                moment = Moment(progress.iterations + 1, progress.env_steps, self.seconds, progress.updates)
                self._updates.append((moment, self._collected))
            self._collected = around

    def text(self, name: str, text: str) -> None:
        """Written at once, enabled or not."""
        for writer in self._writers:
            writer.text(self._moment(), self._tag(name), text)

    def write(self, metrics: Mapping[str, float] | None = None) -> dict[str, float]:
        """Writes what was collected since the last time, with `metrics` below `Metrics/`.

        Returns the scalars, without those that belong to a single update.
        """
        for moment, collected in self._updates:
            self._write(moment, collected.means(), collected)
        collected, self._collected, self._updates = self._collected, _Collected(), []
        scalars = collected.means() | {f"Metrics/{name}": float(value) for name, value in (metrics or {}).items()}
        self._write(self._moment(), scalars, collected)
        return scalars

    def poll(self) -> None:
        """Once per iteration: lets events reach the disk in time."""
        for writer in self._writers:
            writer.poll()

    def flush(self) -> None:
        for writer in self._writers:
            writer.flush()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    def state_dict(self) -> dict[str, Any]:
        """Taken with a checkpoint: how far the files go now."""
        return {"seconds": self.seconds, "writers": [writer.state_dict() for writer in self._writers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Cuts off what was written after the checkpoint, so that a resumed run writes nothing twice."""
        self._started = self._clock() - state["seconds"]
        for writer, its_state in zip(self._writers, state["writers"], strict=False):
            writer.load_state_dict(its_state)

    def _write(self, moment: Moment, scalars: dict[str, float], collected: _Collected) -> None:
        for writer in self._writers:
            if scalars:
                writer.scalars(moment, scalars)
            for tag, tensor in collected.histograms.items():
                writer.histogram(moment, tag, tensor.double().cpu().numpy())

    @contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        outer = self._scope
        self._scope = self._tag(name) + "/"
        try:
            yield
        finally:
            self._scope = outer

    def _tag(self, name: str) -> str:
        return name[1:] if name.startswith("/") else self._scope + name

    def _moment(self) -> Moment:
        return Moment(self._progress.iterations, self._progress.env_steps, self.seconds)


class _Collected:
    """What was given since the last write."""

    def __init__(self) -> None:
        self.scalars: dict[str, list[float | torch.Tensor]] = {}
        self.histograms: dict[str, torch.Tensor] = {}

    def means(self) -> dict[str, float]:
        return {tag: fmean(map(float, values)) for tag, values in self.scalars.items()}


def _reduced(value: Value) -> float | torch.Tensor:
    """Tensors stay tensors until the write, so that a GPU is not waited for in between."""
    if callable(value):
        value = value()
    return value.detach().float().mean() if isinstance(value, torch.Tensor) else value
