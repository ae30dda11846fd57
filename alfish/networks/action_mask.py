"""Action masks: the field `action_mask` of a dict observation says which discrete actions are allowed.

Non-zero means allowed. One discrete action (Discrete, MultiDiscrete, MultiBinary) takes one mask; nested actions take
a nest of masks like the action spec, in which actions without a mask may be left out. A mask has the shape `(N,)` for
`Discrete(N)`; for several choices `(*spec.shape, N)` when all have N values, or flat, one choice after the other.
Masks are not part of what encodings see.
"""

from __future__ import annotations

from typing import Any

import torch

from alfish import nest
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Nest

KEY = "action_mask"
# Finite, so that 0 * log(0) in an entropy or a divergence is 0 and not NaN; below any logit that a network produces.
MASKED_LOGIT = -1e9


def without_mask(observation_spec: Nest) -> Nest:
    """The spec of what an encoding may look at."""
    if not isinstance(observation_spec, dict) or KEY not in observation_spec:
        return observation_spec
    return {key: spec for key, spec in observation_spec.items() if key != KEY}


def existing_choices(spec: BoundedTensorSpec) -> torch.Tensor:
    """bool `[*spec.shape, N]`: which values each choice has, N being the largest number of values."""
    counts = torch.tensor(spec.maximum - spec.minimum + 1, dtype=torch.int64)
    return torch.arange(int(counts.max())) < counts.unsqueeze(-1)


class MaskReader:
    """Finds the mask of one discrete action in an observation and brings it into the layout of the logits.

    Args:
        observation_spec: spec of the whole observation.
        action_spec: spec of the whole action.
        path: dotted path of the discrete action in the action spec, '' when the action is not nested.
    """

    def __init__(self, observation_spec: Nest, action_spec: Nest, path: str = "") -> None:
        self._existing = existing_choices(nest.named_leaves(action_spec)[path])
        self._keys = _mask_keys(observation_spec, action_spec, path)
        self._is_flat = False
        if self._keys is not None:
            mask = _descend(observation_spec[KEY], self._keys)
            _check_shape(mask, self._existing, path)
            self._is_flat = mask.shape != tuple(self._existing.shape)

    def __call__(self, observation: Nest) -> torch.Tensor | None:
        """bool `[..., *spec.shape, N]`, or None when there is no mask."""
        if self._keys is None:
            return None
        mask: torch.Tensor = _descend(observation[KEY], self._keys).bool()
        if not self._is_flat:
            return mask
        laid_out = mask.new_zeros(*mask.shape[:-1], *self._existing.shape)
        laid_out[..., self._existing.to(mask.device)] = mask
        return laid_out


def apply_mask(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`logits` with those of forbidden actions far below all others."""
    return torch.where(mask, logits, MASKED_LOGIT)


def _mask_keys(observation_spec: Nest, action_spec: Nest, path: str) -> tuple[str, ...] | None:
    """The keys that lead from the observation's `action_mask` to the mask of the action at `path`."""
    if not isinstance(observation_spec, dict) or KEY not in observation_spec:
        return None
    masks = nest.named_leaves(observation_spec[KEY])
    actions = nest.named_leaves(action_spec)
    discrete = [key for key, spec in actions.items() if spec.is_discrete]
    if list(masks) == [""]:
        if len(discrete) == 1:
            return ()
        raise ConfigError(
            f"the observation has one {KEY}, but the action has {len(discrete)} discrete parts "
            f"({', '.join(discrete)}): make it a dict or tuple of masks like the action"
        )
    unknown = [key for key in masks if key not in discrete]
    if unknown:
        raise ConfigError(
            f"the observation has {KEY}.{unknown[0]}, but there is no such discrete action; "
            f"there is {', '.join(key or 'one that is not nested' for key in discrete)}"
        )
    return tuple(path.split(".")) if path in masks else None


def _check_shape(mask: TensorSpec, existing: torch.Tensor, path: str) -> None:
    flat, shaped = (int(existing.sum()),), tuple(existing.shape)
    allowed = [flat, shaped] if existing.all() and shaped != flat else [flat]
    if mask.shape not in allowed:
        action = f"the action {path!r}" if path else "the action"
        shapes = " or ".join(str(shape) for shape in allowed)
        raise ConfigError(f"the observation field {KEY!r} has shape {mask.shape}, but {action} has choices of {shapes}")


def _descend(masks: Nest, keys: tuple[str, ...]) -> Any:
    for key in keys:
        masks = masks[key] if isinstance(masks, dict) else masks[int(key)]
    return masks
