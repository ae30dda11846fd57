"""What a policy does, in numbers: for `TrainerConfig.summarize_action_distributions`."""

from __future__ import annotations

from contextlib import nullcontext

import torch

from alfish.networks.distributions import Categorical, DiagonalNormal, Distribution, Joint, SquashedNormal
from alfish.summary.summary import Summary
from alfish.types import Nest

_MOST_ELEMENTS = 32  # of an action, or choices, that get a scalar of their own


@torch.no_grad()
def summarize_policy(summary: Summary, policy: Nest) -> None:
    """Entropy, means and standard deviations or probabilities, below `ActionDistribution/`.

    Of a squashed normal the mean is in units of the action, the standard deviation is that before squashing.

    Args:
        summary: where to.
        policy: a distribution, or a nest of them, with leading dimensions `[T, B]`.
    """
    if not summary.enabled:
        return
    with summary.scope("ActionDistribution"):
        for name, part in _parts(policy).items():
            with summary.scope(name) if name else nullcontext():
                _summarize_part(summary, part)


def _summarize_part(summary: Summary, part: Distribution) -> None:
    entropy = part.entropy()
    summary.scalar("entropy", entropy)
    leading = entropy.dim()
    if isinstance(part, Categorical):
        _summarize_elements(summary, "probability", part.logits.softmax(-1), leading)
    elif isinstance(part, DiagonalNormal | SquashedNormal):
        _summarize_elements(summary, "mean", part.mode(), leading)
        _summarize_elements(summary, "std", part.std, leading)


def _summarize_elements(summary: Summary, name: str, values: torch.Tensor, leading: int) -> None:
    """A histogram of all values, their mean, and the mean of each element when these are few."""
    summary.histogram(name, values)
    rows = values.flatten(0, leading - 1).flatten(1) if values.dim() > leading else values.reshape(-1, 1)
    if 1 < rows.shape[1] <= _MOST_ELEMENTS:
        for index, mean in enumerate(rows.float().mean(0)):
            summary.scalar(f"{name}/{index}", mean)
    else:
        summary.scalar(name, rows)


def _parts(policy: Nest) -> dict[str, Distribution]:
    """The distributions by the path of their action; a joint one is taken apart."""
    if isinstance(policy, Joint):
        return _parts(policy.parts)
    if isinstance(policy, Distribution):
        return {"": policy}
    children = policy.items() if isinstance(policy, dict) else enumerate(policy)
    found = {}
    for key, child in children:
        for path, part in _parts(child).items():
            found[f"{key}.{path}" if path else str(key)] = part
    return found
