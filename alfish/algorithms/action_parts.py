"""The discrete and the continuous part of an action."""

from __future__ import annotations

from alfish import nest
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec
from alfish.types import Nest


class ActionParts:
    """Takes a nested action apart: one discrete choice at most, and any number of continuous leaves.

    >>> import torch
    >>> from alfish.specs import BoundedTensorSpec
    >>> parts = ActionParts((BoundedTensorSpec((), torch.int64), BoundedTensorSpec((2,))))
    >>> parts.split(("choice", "vector"))
    ('choice', ('vector',))
    >>> parts.join("choice", ("vector",))
    ('choice', 'vector')

    Args:
        action_spec: nest of specs.
    """

    discrete: BoundedTensorSpec | None
    continuous: Nest  # (): there is none; mixed with a discrete one: a tuple of leaves

    def __init__(self, action_spec: Nest) -> None:
        leaves = nest.named_leaves(action_spec)
        discrete = [name for name, spec in leaves.items() if spec.is_discrete]
        if len(discrete) > 1 or any(leaves[name].shape != () for name in discrete):
            shapes = ", ".join(f"{name or 'it'}: {leaves[name].shape}" for name in discrete)
            raise ConfigError(
                f"one discrete action of shape () is possible, beside any continuous ones, but there are {shapes}. "
                "PPOAlgorithm takes several"
            )
        self._structure = action_spec
        self._is_mixed = 0 < len(discrete) < len(leaves)
        self._place = list(leaves).index(discrete[0]) if discrete else -1
        self.discrete = leaves[discrete[0]] if discrete else None
        self.continuous = self.split(action_spec)[1]

    def split(self, action: Nest) -> tuple[Nest, Nest]:
        """The discrete and the continuous part; () for one that there is not."""
        if self.discrete is None:
            return (), action
        if not self._is_mixed:
            return nest.first_leaf(action), ()
        leaves = nest.leaves(action)
        return leaves.pop(self._place), tuple(leaves)

    def join(self, discrete: Nest, continuous: Nest) -> Nest:
        """The inverse of `split`."""
        if self.discrete is None:
            return continuous
        leaves = list(continuous)
        leaves.insert(self._place, discrete)
        return nest.unflatten(self._structure, leaves)
