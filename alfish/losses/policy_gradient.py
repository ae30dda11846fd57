"""The parts of policy-gradient losses. Everything is elementwise over `[T, B]` unless it says mean.

A `mask` is 1 (or True) where a step counts and 0 where it does not: padding, and actions that were ignored after
the end of an episode. Without a mask every step counts.
"""

from __future__ import annotations

import torch


def policy_gradient_loss(log_prob: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    """`-log_prob * advantage`; no gradient flows through the advantage."""
    return -log_prob * advantage.detach()


def ppo_clipped_loss(
    log_prob: torch.Tensor, old_log_prob: torch.Tensor, advantage: torch.Tensor, clip: float
) -> torch.Tensor:
    """The clipped surrogate of PPO (Schulman et al., 2017, equation 7), as a loss.

    Args:
        log_prob: of the action, by the policy that is trained.
        old_log_prob: of the action, by the policy that took it.
        advantage: of the action.
        clip: epsilon; the probability ratio has no gradient beyond `1 +- clip` in the advantage's direction.
    """
    cost = -advantage.detach()
    ratio = torch.exp(log_prob - old_log_prob.detach())
    # max(ratio * cost, ratio.clamp(1 - clip, 1 + clip) * cost), with a third of the operations, forward and backward.
    return (ratio * cost).clamp(min=cost - clip * cost.abs())


def clipped_value_loss(
    value: torch.Tensor, old_value: torch.Tensor, target: torch.Tensor, clip: float | None
) -> torch.Tensor:
    """The squared error of the value, or of the value held within `old_value +- clip`: the larger one.

    `clip` None: the plain squared error, and `old_value` is not used.
    """
    target = target.detach()
    error = squared(value - target)
    if clip is None:
        return error
    old_value = old_value.detach()
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum(error, squared(clipped - target))


def squared(error: torch.Tensor) -> torch.Tensor:
    """Like `error.square()`, whose gradient takes an operation more."""
    return error * error


def normalize_advantages(
    advantage: torch.Tensor,
    mask: torch.Tensor | None = None,
    epsilon: float = 1e-8,
    dims: tuple[int, ...] | None = None,
) -> torch.Tensor:
    """Shifted and scaled to mean 0 and standard deviation 1 over the steps that count; the others become 0.

    The standard deviation is that of the population, so that a single step gives 0 rather than NaN. It is of all steps,
    or along `dims`.
    """
    dims = tuple(range(advantage.dim())) if dims is None else dims
    if mask is None:
        mask = torch.ones_like(advantage)
    # Not a product with the mask at first: what does not count may be NaN.
    advantage = advantage.masked_fill(mask == 0, 0.0)
    weight = mask.to(advantage.dtype)
    number = weight.sum(dims, keepdim=True).clamp(min=1)
    centered = (advantage - advantage.sum(dims, keepdim=True) / number) * weight
    deviation = torch.linalg.vector_norm(centered, dim=dims, keepdim=True) / number.sqrt()
    return centered / (deviation + epsilon)


@torch.no_grad()
def approximate_kl(
    log_prob: torch.Tensor, old_log_prob: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Mean estimate of KL(old || new) from actions of the old policy: Schulman's k3, `(r - 1) - log r`, never below 0.

    See http://joschu.net/blog/kl-approx.html.
    """
    log_ratio = log_prob - old_log_prob
    return masked_mean(torch.expm1(log_ratio) - log_ratio, mask)


@torch.no_grad()
def clip_fraction(
    log_prob: torch.Tensor, old_log_prob: torch.Tensor, clip: float, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """The share of steps whose probability ratio is beyond `1 +- clip`."""
    beyond = (torch.exp(log_prob - old_log_prob) - 1).abs() > clip
    return masked_mean(beyond.float(), mask)


@torch.no_grad()
def explained_variance(value: torch.Tensor, target: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """`1 - Var(target - value) / Var(target)`: 1 is perfect, 0 as a constant, NaN when all targets are equal."""
    error = target - value
    unexplained = masked_mean((error - masked_mean(error, mask)).square(), mask)
    variance = masked_mean((target - masked_mean(target, mask)).square(), mask)
    return torch.where(variance > 0, 1 - unexplained / variance, torch.nan)


def masked_mean(value: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """The mean over the steps that count; 0 when none does."""
    if mask is None:
        return value.mean()
    counts = mask.bool()
    # Not a product with the mask: what does not count may be NaN.
    return torch.where(counts, value, 0.0).sum() / counts.sum().clamp(min=1)
