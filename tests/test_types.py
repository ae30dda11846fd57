"""Records are frozen, walk like nests, and know their episode."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch
from torch.utils import _pytree as pytree

from alfish import nest
from alfish.types import Experience, StepType, TimeStep, replace


def time_step(step_types: list[int]) -> TimeStep:
    count = len(step_types)
    return TimeStep(
        step_type=torch.tensor(step_types, dtype=torch.int32),
        reward=torch.zeros(count),
        discount=torch.ones(count),
        observation={"camera": torch.zeros(count, 2)},
        prev_action=torch.zeros(count),
        env_id=torch.arange(count),
    )


def test_records_cannot_be_changed_but_replaced() -> None:
    step = time_step([StepType.MID])
    with pytest.raises(FrozenInstanceError):
        step.reward = torch.ones(1)  # type: ignore[misc]
    assert replace(step, reward=torch.ones(1)).reward.item() == 1


def test_a_field_that_does_not_exist_cannot_be_replaced() -> None:
    with pytest.raises(TypeError, match="TimeStep has no field rewards"):
        replace(time_step([StepType.MID]), rewards=torch.ones(1))


def test_first_and_last() -> None:
    step = time_step([StepType.FIRST, StepType.MID, StepType.LAST])
    assert step.is_first().tolist() == [True, False, False]
    assert step.is_last().tolist() == [False, False, True]


def test_torch_pytree_sees_the_same_leaves_as_nest() -> None:
    step = time_step([0, 1])
    theirs, spec = pytree.tree_flatten(step)
    ours = nest.leaves(step)
    assert len(theirs) == len(ours) == 6
    assert all(a is b for a, b in zip(theirs, ours, strict=True))
    assert isinstance(pytree.tree_unflatten(theirs, spec), TimeStep)


def test_experience_has_one_time_step_more_than_actions() -> None:
    steps = nest.stack([time_step([0, 0]), time_step([1, 1]), time_step([1, 2])])
    assert Experience(time_step=steps, action=torch.zeros(2, 2)).length == 2
