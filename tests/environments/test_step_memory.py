from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from alfish import nest
from alfish.environments.step_memory import StepMemory
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import StepType, replace

NESTED = {"place": TensorSpec((3,)), "parts": (TensorSpec((2, 2), torch.uint8), TensorSpec(()))}
CHOICE = BoundedTensorSpec((), torch.int64, np.array(0), np.array(4))


def memory(batch_size: int = 2, observation: nest.Nest = NESTED, action: nest.Nest = CHOICE) -> StepMemory:
    return StepMemory(batch_size, observation, action, (), ("score",))


def test_a_step_is_in_the_middle_of_its_episode_until_something_else_is_written() -> None:
    step = memory().take()
    time_step = step.time_step
    assert time_step.step_type.tolist() == [StepType.MID] * 2
    assert time_step.reward.tolist() == [0, 0]
    assert time_step.discount.tolist() == [1, 1]
    assert time_step.env_id.tolist() == [0, 1]
    assert time_step.env_info["score"].isnan().all()
    assert time_step.untransformed == ()


def test_tensors_show_what_is_written_into_the_arrays() -> None:
    step = memory().take()
    for value, array in enumerate([step.step_type, step.reward, step.discount, *step.observation, *step.prev_action]):
        array[...] = value
    step.infos["score"][...] = 9
    time_step = step.time_step
    shown = nest.map(lambda leaf: leaf.unique().tolist(), time_step)
    assert (shown.step_type, shown.reward, shown.discount) == ([0], [1], [2])
    assert shown.observation == {"place": [3], "parts": ([4], [5])}
    assert shown.prev_action == [6]
    assert shown.env_info == {"score": [9]}
    specs = {"observation": NESTED, "prev_action": CHOICE}
    for name, spec in specs.items():
        for tensor, leaf in zip(nest.leaves(getattr(time_step, name)), nest.leaves(spec), strict=True):
            assert tensor.shape == (2, *leaf.shape)
            assert tensor.dtype == leaf.dtype
            assert tensor.is_contiguous()


def test_no_step_shares_memory_with_another() -> None:
    steps = memory()
    taken = [steps.take() for _ in range(200)]
    for number, step in enumerate(taken):
        for array in (step.reward, step.discount, step.step_type, *step.observation, *step.prev_action):
            array[...] = number % 250
    for number, step in enumerate(taken):
        for tensor in nest.leaves((step.time_step.reward, step.time_step.observation, step.time_step.prev_action)):
            assert (tensor == number % 250).all()


def test_every_tensor_is_aligned_as_torch_aligns_its_own() -> None:
    steps = memory(batch_size=1, observation=TensorSpec((17,)))
    for _ in range(70):
        time_step = steps.take().time_step
        for tensor in (time_step.step_type, time_step.reward, time_step.observation, time_step.prev_action):
            assert tensor.data_ptr() % 64 == 0


def test_leaves_of_every_kind_are_aligned_and_apart() -> None:
    observation = {"a": TensorSpec((3,)), "b": TensorSpec((5,), torch.uint8), "c": TensorSpec((), torch.int64)}
    steps = StepMemory(3, observation, {"x": CHOICE, "y": TensorSpec((2,))}, (2,), ("score", "luck"))
    taken = [steps.take().time_step for _ in range(3)]
    tensors = [leaf for step in taken for leaf in nest.leaves(replace(step, env_id=()))]
    assert len(tensors) == 3 * 10
    for tensor in tensors:
        assert tensor.data_ptr() % 64 == 0
        assert tensor.is_contiguous()
    ends = sorted((tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes) for tensor in tensors)
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))


def owner(array: np.ndarray) -> object:
    """What has the memory that the array is a part of."""
    return owner(array.base) if isinstance(array.base, np.ndarray) else array.base


def test_a_kept_action_keeps_nothing_but_actions() -> None:
    step = memory().take()
    others = [*step.observation, step.reward, step.step_type, step.discount]
    assert all(owner(step.prev_action[0]) is not owner(other) for other in others)


def test_a_kept_number_keeps_no_picture() -> None:
    step = memory().take()
    place, picture, scalar = step.observation
    assert all(owner(picture) is not owner(other) for other in (place, scalar, step.reward, step.step_type))


def test_the_numbers_of_a_step_are_its_observed_floats_and_its_reward() -> None:
    steps = memory()
    step = steps.take()
    assert step.numbers.shape == steps.zeros.shape
    assert not step.numbers.any()
    place, picture, scalar = step.observation
    for array in (place, scalar, step.reward):
        array[1] = np.nan
        assert np.isnan(step.numbers.dot(steps.zeros))
        array[1] = 0
    picture[...] = 255
    step.discount[...] = np.nan
    step.infos["score"][...] = np.nan
    assert step.numbers.dot(steps.zeros) == 0


def test_pictures_are_not_made_in_advance() -> None:
    """A step that is kept keeps what was made together with it."""
    step = memory(8, TensorSpec((4, 84, 84), torch.uint8)).take()
    assert step.time_step.observation.untyped_storage().nbytes() < 2 * 8 * 4 * 84 * 84
    small = memory(8, TensorSpec((4,))).take()
    assert small.time_step.observation.untyped_storage().nbytes() <= 2**16


def test_steps_of_a_block_that_was_begun_in_inference_can_be_learned_from() -> None:
    steps = memory(2, TensorSpec((3,)))
    with torch.inference_mode():
        steps.take()
    observation = steps.take().time_step.observation
    weight = torch.ones(3, requires_grad=True)
    (observation * weight).sum().backward()
    assert weight.grad is not None


def test_who_writes_into_a_step_does_not_spoil_the_gradients_of_others() -> None:
    steps = memory(2, TensorSpec((3,)))
    seen, other = steps.take().time_step, steps.take().time_step
    weight = torch.ones(3, requires_grad=True)
    loss = (seen.observation * weight).sum()
    other.observation.zero_()
    other.reward.clamp_(-1, 1)
    loss.backward()
    assert weight.grad is not None
