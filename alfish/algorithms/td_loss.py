"""What action values learn from a sequence: bootstrapped returns, and the loss of the distance to them."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch.nn import functional as F

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.losses.policy_gradient import squared
from alfish.losses.retrace import retrace
from alfish.losses.value_ops import align
from alfish.losses.value_ops import td_lambda as lambda_return
from alfish.types import TimeStep, record


@record
class Correction:
    """What tells how likely the trained policy was to act as the stored experience did."""

    action_value: torch.Tensor  # [T, B] or [T, B, R], of the actions that were taken
    ratio: torch.Tensor  # [T, B], their probability under the trained policy, by that under the acting one


@configurable
class TDLoss:
    """The n-step return as target (Sutton and Barto 2018, section 7.1), for any critic.

    Of a sequence only the steps are trained that have all of the n steps behind them in it: of the `T` actions the
    first `T - n + 1`. A sequence of `n + 1` time steps, which is what is sampled when `mini_batch_length` is None,
    trains its first action. Where an episode ends within the n steps, so does the return: at a real end with the last
    reward, at a time limit with the value of the last time step.

    Args:
        gamma: discount of future rewards.
        num_steps: n, rewards in the target before it bootstraps; None: all that follow in the sequence, so that every
            action of it is trained, the last one on a single reward.
        td_lambda: 1 is the n-step return, 0 the one-step return, in between the lambda-return of the n steps.
        td_error_loss: 'squared' error, or 'huber': half the square up to an error of 1, linear beyond.
    """

    needs_correction: bool = False  # its target takes a `Correction`

    def __init__(
        self,
        gamma: Annotated[float, Range(min=0, max=1)] = 0.99,
        num_steps: Annotated[int, Range(min=1)] | None = 1,
        td_lambda: Annotated[float, Range(min=0, max=1)] = 1.0,
        td_error_loss: Literal["squared", "huber"] = "squared",
    ) -> None:
        self.gamma = gamma
        self.num_steps = num_steps
        self._lambda = td_lambda
        self._is_huber = td_error_loss == "huber"

    @property
    def least_time_steps(self) -> int:
        """Of a sequence with an action to train."""
        return (self.num_steps or 1) + 1

    def num_trained(self, length: int) -> int:
        """How many of `length` actions in a row are trained: the first ones."""
        return length + 1 - (self.num_steps or 1)

    def target(
        self, time_step: TimeStep, next_values: torch.Tensor, correction: Correction | None = None
    ) -> torch.Tensor:
        """What the critic should say about the trained actions: `[num_trained(T), B]`, or `[..., B, R]`.

        Of actions at LAST, which do not count, it says nothing in particular.

        Args:
            time_step: `T + 1` rows.
            next_values: `[T, B]` or `[T, B, R]`, of all time steps but the first. No gradient flows to them.
            correction: given when `needs_correction`.
        """
        if self.num_steps == 1:  # a fraction of the operations
            discount = align(time_step.discount[1:] * self.gamma, next_values)
            return time_step.reward[1:] + discount * next_values.detach()
        rows = [time_step.reward, _of_all(next_values), time_step.discount * self.gamma, time_step.step_type]
        trained = self.num_trained(next_values.size(0))
        if self.num_steps is None or trained == 1:
            return self._return(rows)[:trained]
        # One window of n + 1 time steps for every trained action, side by side in the batch.
        windows = [torch.stack([row[t : t + trained] for t in range(self.num_steps + 1)]).flatten(1, 2) for row in rows]
        target = self._return(windows)[0]
        return target.reshape(trained, -1, *target.shape[1:])

    def _return(self, rows: list[torch.Tensor]) -> torch.Tensor:
        rewards, values, discounts, step_types = rows
        # Of a single reward all lambda-returns are the same; the one-step return takes a third of the operations.
        lambda_ = self._lambda if values.size(0) > 2 else 0.0
        return lambda_return(rewards, values, discounts, step_types, lambda_)

    def __call__(self, value: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss of every element, with gradient to `value`. The mean or the sum is left to the caller."""
        if self._is_huber:
            return F.huber_loss(value, target, reduction="none")
        return squared(value - target)


@configurable
class OneStepTDLoss(TDLoss):
    """The one-step return as target: `reward + gamma * value` of the next time step.

    Args:
        gamma: discount of future rewards.
        td_error_loss: 'squared' error, or 'huber': half the square up to an error of 1, linear beyond.
    """

    def __init__(
        self,
        gamma: Annotated[float, Range(min=0, max=1)] = 0.99,
        td_error_loss: Literal["squared", "huber"] = "squared",
    ) -> None:
        super().__init__(gamma=gamma, td_error_loss=td_error_loss)


@configurable
class RetraceTDLoss(TDLoss):
    """Retrace(lambda) as target (Munos et al. 2016): long returns, cut where the trained policy would act otherwise.

    Every action of a sequence is trained, on what follows in it: set `TrainerConfig.mini_batch_length`. For
    `SacAlgorithm`, whose policy gives probabilities.

    Args:
        gamma: discount of future rewards.
        retrace_lambda: 1 is the full return as far as the policies agree, 0 the one-step return.
        td_error_loss: 'squared' error, or 'huber': half the square up to an error of 1, linear beyond.
    """

    needs_correction = True

    def __init__(
        self,
        gamma: Annotated[float, Range(min=0, max=1)] = 0.99,
        retrace_lambda: Annotated[float, Range(min=0, max=1)] = 0.95,
        td_error_loss: Literal["squared", "huber"] = "squared",
    ) -> None:
        super().__init__(gamma, num_steps=None, td_lambda=retrace_lambda, td_error_loss=td_error_loss)

    def target(
        self, time_step: TimeStep, next_values: torch.Tensor, correction: Correction | None = None
    ) -> torch.Tensor:
        assert correction is not None
        discount = time_step.discount * self.gamma
        return retrace(
            time_step.reward,
            _of_all(next_values),
            correction.action_value,
            correction.ratio,
            discount,
            time_step.step_type,
            self._lambda,
        )


def _of_all(next_values: torch.Tensor) -> torch.Tensor:
    """With a row for the first time step, which returns do not look at."""
    return torch.cat([torch.zeros_like(next_values[:1]), next_values])


def mean_of_trained(rows: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """The mean `[B]` over the steps that count, of `[T, B]` values; 0 where none does.

    Args:
        rows: the values.
        trained: 1 for steps that count, else 0.
    """
    if rows.size(0) == 1:
        return (rows * trained)[0]
    return (rows * trained).sum(0) / trained.sum(0).clamp(min=1)


def refuse_correction(loss: TDLoss, algorithm: str) -> None:
    """For algorithms whose policy has no probabilities."""
    if loss.needs_correction:
        raise ConfigError(
            f"{algorithm}.critic_loss_ctor = @{type(loss).__name__}: it weighs actions by their probability, which "
            f"{algorithm} does not have. Use @TDLoss with num_steps and td_lambda, or SacAlgorithm"
        )


def as_sequence(rows: torch.Tensor, counts: torch.Tensor, start: int = 0) -> torch.Tensor:
    """Losses of some of the steps as losses of all: `[T, B]`, 0 where nothing is trained.

    They are scaled so that the mean over all steps that count is the mean over the trained ones that count; otherwise
    the step size would depend on the length of the sequence.

    Args:
        rows: `[N, B]`, the losses of the steps from `start` on.
        counts: `[T, B]`, 0 at LAST, where an action is ignored.
        start: the first trained step.
    """
    length, stop = counts.size(0), start + rows.size(0)
    if rows.size(0) == length:
        return rows
    share = counts.sum() / counts[start:stop].sum().clamp(min=1)
    return F.pad(rows * share, (0, 0, start, length - stop))
