"""Uniform random actions, for the first steps of a run."""

from __future__ import annotations

import torch

from alfish import nest
from alfish.networks.action_mask import MaskReader, apply_mask, existing_choices
from alfish.networks.distributions import Categorical
from alfish.specs import BoundedTensorSpec
from alfish.types import Nest


class RandomActions:
    """Draws every action with equal probability; an `action_mask` in the observation is honoured.

    Elements of a continuous action without bounds are standard normal.

    Args:
        observation_spec: of the environments, not of what transformers make of it.
        action_spec: of the environments.
    """

    def __init__(self, observation_spec: Nest, action_spec: Nest) -> None:
        self._action_spec = action_spec
        discrete = [name for name, spec in nest.named_leaves(action_spec).items() if spec.is_discrete]
        self._masks = {name: MaskReader(observation_spec, action_spec, name) for name in discrete}

    def __call__(self, observation: Nest, generator: torch.Generator) -> Nest:
        """Actions `[B, ...]` for observations `[B, ...]`."""
        batch = nest.first_leaf(observation).shape[0]

        def draw(name: str, spec: BoundedTensorSpec) -> torch.Tensor:
            if name not in self._masks:
                return spec.sample(batch, generator=generator)
            existing = existing_choices(spec).to(generator.device)
            mask = self._masks[name](observation)
            allowed = existing.expand(batch, *existing.shape) if mask is None else existing & mask
            logits = torch.zeros(allowed.shape, device=generator.device)
            return Categorical.for_spec(spec)(apply_mask(logits, allowed)).sample(generator)

        return nest.map_with_path(draw, self._action_spec)
