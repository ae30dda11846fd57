"""The records that travel through alfish.

`T` is the time axis, `B` the batch of environments. A field that is `()` is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

import torch
from torch.utils import _pytree as pytree

from alfish import nest

Nest = nest.Nest
R = TypeVar("R")


@dataclass_transform(frozen_default=True)
def record(cls: type[R]) -> type[R]:
    """A frozen dataclass that `alfish.nest` and torch's pytree walk through."""
    made = dataclass(frozen=True)(cls)
    names = tuple(field.name for field in fields(made))  # type: ignore[arg-type]
    made._nest_fields = names  # type: ignore[attr-defined]
    pytree.register_pytree_node(
        made,
        lambda value: ([getattr(value, name) for name in names], None),
        lambda values, _: made(*values),
        serialized_type_name=f"{made.__module__}.{made.__qualname__}",
    )
    return made


def replace(value: R, /, **changes: Any) -> R:
    """A copy of a record with other values in some fields; `dataclasses.replace` takes three times as long."""
    changed = {**value.__dict__, **changes}
    if len(changed) != len(value.__dict__):
        unknown = ", ".join(name for name in changes if name not in value.__dict__)
        raise TypeError(f"{type(value).__name__} has no field {unknown}")
    return type(value)(**changed)


class StepType:
    """Where a time step stands in its episode."""

    FIRST = 0
    MID = 1
    LAST = 2


@record
class TimeStep:
    """What the environments show at one moment. Leaves are `[B, ...]`, or `[T, B, ...]` when stacked.

    The reward at `t` belongs to the action at `t - 1`. A real end is LAST with discount 0, a time limit is LAST
    with discount 1, so that it bootstraps. After LAST comes FIRST; the action in between is ignored.
    """

    step_type: torch.Tensor  # int32, see StepType
    reward: torch.Tensor  # float32 [B], or [B, R] for a vector reward
    discount: torch.Tensor  # float32; 0 at a real end, else 1
    observation: Nest
    prev_action: Nest
    env_id: torch.Tensor  # int64: the index of the environment
    env_info: Nest = ()  # dict of float32 leaves, always with the same keys
    untransformed: Nest = ()  # the raw time step, when UntransformedTimeStep keeps it

    def is_first(self) -> torch.Tensor:
        return self.step_type == StepType.FIRST

    def is_last(self) -> torch.Tensor:
        return self.step_type == StepType.LAST


@record
class AlgStep:
    """What an algorithm answers to a time step."""

    output: Nest = ()  # the action
    state: Nest = ()  # recurrent state, carried to the next step
    info: Nest = ()  # for the loss, or stored for training


@record
class BatchInfo:
    """Where sampled sequences come from; filled by the replay buffer."""

    env_ids: torch.Tensor | tuple[()] = ()  # [B]
    positions: torch.Tensor | tuple[()] = ()  # [B], time of the first step
    importance_weights: torch.Tensor | tuple[()] = ()  # [B]


@record
class Experience:
    """`T` actions between `T + 1` time steps. The last time step only bootstraps."""

    time_step: TimeStep  # [T + 1, B, ...]
    action: Nest  # [T, B, ...]
    rollout_info: Nest = ()  # [T, B, ...], what rollout_step returned as info
    state: Nest = ()  # [B, ...], the recurrent state before the first step
    final_state: Nest = ()  # [B, ...], the recurrent state before the last time step; () for sampled sequences
    batch_info: BatchInfo = BatchInfo()

    @property
    def length(self) -> int:
        """T, the number of actions."""
        return self.time_step.step_type.size(0) - 1


@record
class LossInfo:
    """What training minimises: the mean of `loss`, plus `scalar_loss`."""

    loss: Any = ()  # [T, B], or () when there is only a scalar loss
    scalar_loss: Any = ()  # []
    extra: Nest = ()  # named parts, for the summaries
    priority: Any = ()  # [B], for prioritized replay


__all__ = [
    "AlgStep",
    "BatchInfo",
    "Experience",
    "LossInfo",
    "Nest",
    "StepType",
    "TimeStep",
    "record",
    "replace",
]
