"""What values and policies are trained towards: returns and advantages.

All arguments are rows of the same `T + 1` time steps, `[T + 1, B]`; results are `[T, B]`, one for each of the `T`
actions between them. `rewards[t + 1]` and `discounts[t + 1]` belong to action `t`. `discounts` are multiplied by
gamma already: 0 at a real end, gamma at a time limit, so that a time limit bootstraps. Where time step `t` is LAST,
action `t` was ignored: its return is the value itself, its advantage is 0, and nothing flows across.

Vector rewards: `rewards` and `values` may be `[T + 1, B, R]`; `discounts` and `step_types` stay `[T + 1, B]`.
Results are targets: no gradient flows through them.
"""

from __future__ import annotations

from typing import Any

import torch

from alfish.types import StepType


@torch.no_grad()
def discounted_return(
    rewards: torch.Tensor, values: torch.Tensor, discounts: torch.Tensor, step_types: torch.Tensor
) -> torch.Tensor:
    """`R[t] = rewards[t + 1] + discounts[t + 1] * R[t + 1]`, and `R[T] = values[T]`."""
    taken = align(step_types[:-1] != StepType.LAST, values)
    gains = torch.where(taken, rewards[1:], values[:-1])
    decays = align(discounts[1:], values) * taken
    # The last value enters as one more row, from which nothing comes after.
    gains = torch.cat([gains, values[-1:]])
    decays = torch.cat([decays, torch.zeros_like(decays[-1:])])
    return backward_sums(gains, decays)[:-1]


@torch.no_grad()
def one_step_discounted_return(
    rewards: torch.Tensor, values: torch.Tensor, discounts: torch.Tensor, step_types: torch.Tensor
) -> torch.Tensor:
    """`rewards[t + 1] + discounts[t + 1] * values[t + 1]`."""
    taken = align(step_types[:-1] != StepType.LAST, values)
    return torch.where(taken, rewards[1:] + align(discounts[1:], values) * values[1:], values[:-1])


@torch.no_grad()
def gae(
    rewards: torch.Tensor, values: torch.Tensor, discounts: torch.Tensor, step_types: torch.Tensor, lambda_: float
) -> torch.Tensor:
    """Generalized advantage estimation (Schulman et al., 2016, equation 16).

    `A[t] = delta[t] + discounts[t + 1] * lambda_ * A[t + 1]` with
    `delta[t] = rewards[t + 1] + discounts[t + 1] * values[t + 1] - values[t]`.
    """
    taken = align(step_types[:-1] != StepType.LAST, values)
    decays = align(discounts[1:], values) * taken
    deltas = torch.where(taken, rewards[1:] - values[:-1], 0.0) + decays * values[1:]
    return backward_sums(deltas, decays * lambda_)


@torch.no_grad()
def td_lambda(
    rewards: torch.Tensor, values: torch.Tensor, discounts: torch.Tensor, step_types: torch.Tensor, lambda_: float
) -> torch.Tensor:
    """The lambda-return: one-step returns for `lambda_` 0, bootstrapped returns for 1, `values + gae` in between."""
    if lambda_ == 0:
        return one_step_discounted_return(rewards, values, discounts, step_types)
    if lambda_ == 1:
        return discounted_return(rewards, values, discounts, step_types)
    return values[:-1] + gae(rewards, values, discounts, step_types, lambda_)


def align(row: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """`[T, B]` as `[T, B, 1]` when values are `[T, B, R]`."""
    return row.unsqueeze(-1) if values.dim() > row.dim() else row


def backward_sums(terms: torch.Tensor, decays: torch.Tensor) -> torch.Tensor:
    """`y[t] = terms[t] + decays[t] * y[t + 1]`, in log2(T) passes over all of T.

    After the pass with stride s, `y[t]` holds the sum over the rows t to t + 2s - 1 and `decays[t]` the weight
    of the row behind them.
    """
    terms, decays = terms.contiguous().clone(), decays.contiguous().clone()
    # The passes read the same for arrays and tensors; small numpy operations cost a quarter of torch's.
    on_cpu = terms.device.type == "cpu" and type(terms) is torch.Tensor  # and not one that a compiler watches
    y: Any = terms.numpy() if on_cpu else terms
    decay: Any = decays.numpy() if on_cpu else decays
    stride = 1
    while stride < len(y):
        y[:-stride] += decay[:-stride] * y[stride:]
        decay[:-stride] = decay[:-stride] * decay[stride:]
        stride *= 2
    return terms
