"""What an algorithm thinks while it plays, for people who watch."""

from __future__ import annotations

import torch

from alfish.networks.distributions import Categorical, DiagonalNormal, Joint, SquashedNormal
from alfish.types import Nest, record, replace


@record
class Explanation:
    """Thoughts about one step, `[B, ...]`; () where the algorithm has none."""

    value: Nest = ()  # [B] or [B, R]: the return it expects from here on
    action_value: Nest = ()  # [B]: the return it expects after the action it takes
    q_values: Nest = ()  # [B, N]: the return it expects after each discrete action; about -1e9 if not allowed
    policy: Nest = ()  # what `outline` says about its policy


def outline(policy: Nest) -> Nest:
    """A policy in numbers that can be drawn, in the structure of the action.

    Of a discrete action the probabilities `[B, ..., N]`; of a continuous one `[B, 2, ...]`, the actions one standard
    deviation below and above the mean. () for a distribution of another kind.
    """
    if isinstance(policy, Joint):
        return outline(policy.parts)
    if isinstance(policy, Categorical):
        return policy.logits.softmax(-1)
    if isinstance(policy, DiagonalNormal | SquashedNormal):
        ends = [replace(policy, mean=policy.mean + side * policy.std).mode() for side in (-1, 1)]
        return torch.stack(ends, dim=1)
    if isinstance(policy, dict):
        return {key: outline(part) for key, part in policy.items()}
    if isinstance(policy, tuple | list):
        return type(policy)(outline(part) for part in policy)
    return ()
