"""Which leaves of an observation a transformer is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from alfish import nest
from alfish.config.problems import nearest
from alfish.errors import ConfigError
from alfish.networks.action_mask import KEY as ACTION_MASK
from alfish.specs import TensorSpec
from alfish.types import Nest


class Fields:
    """The chosen leaves, in the order of the observation.

    Args:
        owner: who chooses, for error messages.
        observation_spec: the observation.
        fields: paths such as 'camera' or 'arm.position'; the path of a dict means all below it. None: every leaf
            for which `by_default` holds, but never an action mask.
        by_default: which leaves are meant when `fields` is None.
    """

    def __init__(
        self,
        owner: str,
        observation_spec: Nest,
        fields: Sequence[str] | None,
        by_default: Callable[[TensorSpec], bool] = lambda _: True,
    ) -> None:
        leaves: dict[str, TensorSpec] = nest.named_leaves(observation_spec)
        if fields is None:
            chosen = [path for path, spec in leaves.items() if path != ACTION_MASK and by_default(spec)]
            if not chosen:
                raise ConfigError(f"{owner} finds nothing to transform in the observation {observation_spec}")
        else:
            chosen = [path for name in fields for path in _below(owner, name, leaves)]
        self.paths = [path for path in leaves if path in set(chosen)]
        self.specs = [leaves[path] for path in self.paths]
        self._places = [place for place, path in enumerate(leaves) if path in set(chosen)]

    def select(self, observation: Nest) -> list[Any]:
        """The chosen leaves."""
        leaves = nest.leaves(observation)
        return [leaves[place] for place in self._places]

    def stored_paths(self) -> list[str]:
        """Where the chosen leaves are found in a stored time step."""
        return [f"observation.{path}" if path else "observation" for path in self.paths]

    def put(self, observation: Nest, values: Iterable[Any]) -> Nest:
        """The observation with the chosen leaves replaced."""
        leaves = nest.leaves(observation)
        for place, value in zip(self._places, values, strict=True):
            leaves[place] = value
        return nest.unflatten(observation, leaves)

    def map(self, function: Callable[..., torch.Tensor], observation: Nest, *others: Iterable[Any]) -> Nest:
        """`function` applied to the chosen leaves; `others` give its further arguments, one per leaf."""
        selected = self.select(observation)
        return self.put(observation, [function(*row) for row in zip(selected, *others, strict=True)])


def _below(owner: str, name: str, leaves: dict[str, TensorSpec]) -> list[str]:
    found = [path for path in leaves if path == name or path.startswith(f"{name}.")]
    if not found:
        if "" in leaves:
            advice = "The observation is a single tensor: leave fields out"
        else:
            guess = nearest(name, leaves)
            advice = f"Did you mean {guess!r}?" if guess else f"It has {', '.join(map(repr, leaves))}"
        raise ConfigError(f"{owner}: the observation has no field {name!r}. {advice}")
    return found
