"""Retrace: multi-step returns from the actions of another policy (Munos et al. 2016)."""

from __future__ import annotations

import torch

from alfish.losses.value_ops import align, backward_sums
from alfish.types import StepType


@torch.no_grad()
def retrace(
    rewards: torch.Tensor,
    values: torch.Tensor,
    action_values: torch.Tensor,
    ratios: torch.Tensor,
    discounts: torch.Tensor,
    step_types: torch.Tensor,
    lambda_: float,
) -> torch.Tensor:
    """What the values of the taken actions are trained towards, `[T, B]`; rows and ends as in `value_ops`.

    `R[t] = rewards[t + 1] + discounts[t + 1] * (values[t + 1] + c[t + 1] * (R[t + 1] - action_values[t + 1]))` with
    `c[t] = lambda_ * min(1, ratios[t])`; the last one is `rewards[T] + discounts[T] * values[T]`. A step that is
    unlikely under the trained policy cuts the return. Where time step `t` is LAST, `R[t] = action_values[t]`.

    Args:
        rewards: `[T + 1, B]`, or `[T + 1, B, R]`.
        values: like rewards: the mean of the action values under the policy that is trained.
        action_values: `[T, B]` or `[T, B, R]`: of the actions that were taken.
        ratios: `[T, B]`: probability of the taken action under the trained policy, by that under the acting one.
        discounts: `[T + 1, B]`, multiplied by gamma already.
        step_types: `[T + 1, B]`.
        lambda_: 1 is the full correction, 0 the one-step return.
    """
    taken = align(step_types[:-1] != StepType.LAST, values)
    decays = align(discounts[1:], values) * taken
    errors = torch.where(taken, rewards[1:] - action_values, 0.0) + decays * values[1:]
    # The trace of action t + 1 leads from its error to that of action t; behind the last action there is none.
    traces = align(lambda_ * ratios.clamp(max=1.0), values)
    traces = torch.cat([traces[1:], torch.zeros_like(traces[-1:])])
    return action_values + backward_sums(errors, decays * traces)
