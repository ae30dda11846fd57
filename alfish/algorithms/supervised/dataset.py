"""Examples to learn from, to be tested on, and to be surprised by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from alfish import nest
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Nest, record


@record
class Examples:
    """Inputs with their answers.

    >>> Examples(torch.zeros(5, 2), torch.zeros(5)).take(torch.tensor([0, 3])).inputs.shape
    torch.Size([2, 2])
    """

    inputs: Nest  # [N, ...] leaves
    targets: Any  # [N] int64: the numbers of classes, from 0; or [N, ...] float32
    rows: Any = ()  # [N] int64: which examples of the training set these are; () for a whole set

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, rows: torch.Tensor) -> Examples:
        """Some of the examples, in the order of `rows`."""
        return Examples(nest.index(self.inputs, rows), self.targets[rows], rows)


@dataclass(frozen=True)
class Dataset:
    """What a supervised run learns from and is measured by.

    Args:
        name: for people.
        train: to learn from.
        test: to be evaluated on; nothing is learned from these.
        outliers: inputs `[N, ...]` of another distribution, for `eval_uncertainty`; None: there are none.
    """

    name: str
    train: Examples
    test: Examples
    outliers: Nest = None

    @cached_property
    def input_spec(self) -> Nest:
        return _spec(self.train.inputs)

    @cached_property
    def target_spec(self) -> TensorSpec:
        """Of one answer; bounded from 0 to the last class if it is a class."""
        spec: TensorSpec = _spec(self.train.targets)
        if not spec.is_discrete:
            return spec
        last = max(int(part.targets.max()) for part in (self.train, self.test))
        return BoundedTensorSpec(spec.shape, spec.dtype, minimum=0, maximum=last)  # type: ignore[arg-type]

    def check(self, maker: str) -> None:
        """Raises `ConfigError` when the parts do not fit each other, naming the `maker` of the data."""
        parts = {"train": self.train, "test": self.test}
        for name, part in parts.items():
            _check_part(f"{maker}: {name}", part)
        named = {"test.inputs": self.test.inputs}
        if self.outliers is not None:
            _check_counts(f"{maker}: outliers", nest.leaves(self.outliers))
            named["outliers"] = self.outliers
        for name, inputs in named.items():
            if not nest.same_structure(inputs, self.train.inputs) or _spec(inputs) != self.input_spec:
                raise ConfigError(f"{maker}: {name} is {_spec(inputs)}, but train.inputs is {self.input_spec}")
        if _spec(self.test.targets) != _spec(self.train.targets):
            raise ConfigError(
                f"{maker}: test.targets is {_spec(self.test.targets)}, train.targets {_spec(self.train.targets)}"
            )


def _check_part(name: str, part: Examples) -> None:
    _check_counts(name, [*nest.leaves(part.inputs), part.targets])
    for leaf in (*nest.leaves(part.inputs), part.targets):
        if leaf.is_floating_point() and not torch.isfinite(leaf).all():
            raise ConfigError(f"{name} holds numbers that are not finite. Remove or replace them")
    if not part.targets.is_floating_point():
        if part.targets.dtype != torch.int64 or part.targets.dim() != 1:
            raise ConfigError(f"{name}.targets is {_spec(part.targets)}; classes are int64 and one per example")
        if part.targets.min() < 0:
            raise ConfigError(f"{name}.targets has the class {int(part.targets.min())}; classes count from 0")


def _check_counts(name: str, leaves: list[Any]) -> None:
    if not leaves or not all(isinstance(leaf, torch.Tensor) and leaf.dim() > 0 for leaf in leaves):
        raise ConfigError(f"{name} must be tensors with the examples in front, [N, ...]")
    counts = {len(leaf) for leaf in leaves}
    if len(counts) > 1:
        raise ConfigError(f"{name} has {' and '.join(map(str, sorted(counts)))} examples in different tensors")
    if counts == {0}:
        raise ConfigError(f"{name} is empty; it needs one example at least")


def _spec(values: Nest) -> Any:
    return nest.map(lambda leaf: TensorSpec(tuple(leaf.shape[1:]), leaf.dtype), values)
