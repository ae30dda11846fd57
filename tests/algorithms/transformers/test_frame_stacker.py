from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from alfish.algorithms.transformers.frame_stacker import FrameStacker
from alfish.environments.atari import load_atari
from alfish.environments.create import create_environment
from alfish.environments.wrappers import FrameStack
from alfish.errors import ConfigError
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Experience, StepType, TimeStep, replace
from tests.algorithms.transformers.tape import Tape, assert_equal, filled, rolled_out, stream


def image(*shape: int) -> BoundedTensorSpec:
    return BoundedTensorSpec(shape, torch.uint8, np.asarray(0), np.asarray(255))


def test_the_last_frames_oldest_first_and_copies_of_the_first_one_at_the_start() -> None:
    spec = BoundedTensorSpec((1,))
    first, mid, last = StepType.FIRST, StepType.MID, StepType.LAST
    (step,) = stream(spec, 1, batch_size=1)
    types = [first, mid, mid, last, first, last]
    steps = [
        replace(step, step_type=torch.tensor([kind]), observation=torch.tensor([[float(t)]]))
        for t, kind in enumerate(types)
    ]
    seen = rolled_out(FrameStacker(spec, stack_size=3), steps)
    expected = [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [4, 4, 4], [4, 4, 5]]
    assert [step.observation[0].tolist() for step in seen] == expected


@pytest.mark.parametrize(
    ("spec", "axis", "shape"),
    [
        (BoundedTensorSpec(()), 0, (4,)),
        (BoundedTensorSpec((5,)), 0, (20,)),
        (BoundedTensorSpec((5,)), -1, (20,)),
        (image(4, 6), 0, (4, 4, 6)),
        (image(4, 6), -1, (4, 6, 4)),
        (image(3, 4, 6), 0, (12, 4, 6)),
        (image(4, 6, 3), 2, (4, 6, 12)),
        (image(4, 6, 3), -1, (4, 6, 12)),
    ],
)
@pytest.mark.parametrize("length", [1, 2, 7])
def test_replayed_stacks_equal_those_of_the_rollout(
    spec: BoundedTensorSpec, axis: int, shape: tuple[int, ...], length: int
) -> None:
    stacker = FrameStacker(spec, stack_axis=axis)
    steps = stream(spec, 60)
    seen = rolled_out(stacker, steps)
    assert seen[0].observation.shape == (3, *shape)
    assert seen[0].observation.dtype == spec.dtype
    drawn = Tape(steps).draw(50, length)
    replayed = stacker.transform_experience(drawn, Tape(steps)).time_step
    assert_equal(replayed, Tape(seen).draw(50, length).time_step)
    made = stacker.transformed_observation_spec
    assert (made.shape, made.dtype, int(made.maximum.max())) == (shape, spec.dtype, int(spec.maximum.max()))


def test_stacks_are_right_where_the_start_of_the_episode_was_overwritten() -> None:
    spec = BoundedTensorSpec((2,))
    stacker = FrameStacker(spec, stack_size=4)
    steps = stream(spec, 80, end=0.05)
    seen = rolled_out(stacker, steps)
    first_whole = 30 + stacker.num_earlier_steps
    tape = Tape(steps, oldest=30)
    env_ids, positions = torch.arange(3).repeat(40), torch.arange(first_whole, first_whole + 40).repeat_interleave(3)
    headless = tape.episode_begin(env_ids, positions) == 30
    assert (headless & (torch.stack([step.step_type for step in steps])[30, env_ids] != StepType.FIRST)).any()
    replayed = stacker.transform_experience(tape.get(env_ids, positions, 2), tape).time_step
    assert_equal(replayed, Tape(seen).get(env_ids, positions, 2).time_step)
    # Where even the frames are gone, the oldest one stands in: nothing is read that is not stored.
    at_edge = stacker.transform_experience(tape.get(torch.tensor([0]), torch.tensor([30]), 1), tape).time_step
    assert torch.equal(at_edge.observation[0, 0], steps[30].observation[0].repeat(4))


def test_it_reads_the_ring_as_it_reads_the_tape() -> None:
    spec = {"camera": image(4, 6), "speed": BoundedTensorSpec((2,))}
    stacker = FrameStacker(spec)
    steps = stream(spec, 200, end=0.1)
    ring, tape = filled(steps, max_length=50), Tape(steps, oldest=150)
    drawn = ring.sample(128, 5)
    assert_equal(*(stacker.transform_experience(drawn, stored).time_step for stored in (ring, tape)))


def test_stacks_equal_those_of_the_environment() -> None:
    actions = torch.randint(2, (200, 3), generator=torch.Generator().manual_seed(0))
    plain = create_environment("CartPole-v1", num_parallel_environments=3)
    stacked = create_environment("CartPole-v1", num_parallel_environments=3, wrappers=[FrameStack])
    with plain, stacked:
        steps = [plain.reset(seed=5), *(plain.step(action) for action in actions)]
        expected = [stacked.reset(seed=5), *(stacked.step(action) for action in actions)]
    assert sum(int(step.is_last().sum()) for step in steps) > 10
    for ours, theirs in zip(rolled_out(FrameStacker(plain.observation_spec), steps), expected, strict=True):
        assert_equal(ours.observation, theirs.observation.flatten(1))


def test_an_atari_buffer_of_single_frames_gives_the_stacks_of_the_game() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    load = partial(load_atari, terminal_on_life_loss=True)
    single = create_environment("ALE/Breakout-v5", partial(load, frame_stack=1))
    stacked = create_environment("ALE/Breakout-v5", load)
    actions = torch.randint(4, (120, 1), generator=torch.Generator().manual_seed(0))
    with single, stacked:
        steps = [single.reset(seed=3), *(single.step(action) for action in actions)]
        expected = [stacked.reset(seed=3), *(stacked.step(action) for action in actions)]
    assert sum(int(step.is_last().sum()) for step in steps) >= 2
    stacker = FrameStacker(single.observation_spec)
    assert stacker.transformed_observation_spec == stacked.observation_spec
    ring = filled(steps, max_length=100, ignored=stacker.num_earlier_steps)
    drawn = ring.sample(64, 2)
    env_ids, positions = torch.as_tensor(drawn.batch_info.env_ids), torch.as_tensor(drawn.batch_info.positions)
    replayed = stacker.transform_experience(drawn, ring).time_step
    assert_equal(replayed.observation, Tape(expected).get(env_ids, positions, 2).time_step.observation)


def test_a_hundred_thousand_atari_frames_fit_into_three_quarters_of_a_gigabyte() -> None:
    frame, number = image(1, 84, 84), TensorSpec(())
    time_step = TimeStep(TensorSpec((), torch.int32), number, number, frame, number, TensorSpec((), torch.int64))
    ring = ReplayBuffer(1, 100_000, torch.Generator())
    ring.allocate(Experience(time_step, action=TensorSpec((), torch.int64)))
    assert ring.nbytes < 0.75e9


def test_chosen_fields_only_and_never_an_action_mask() -> None:
    spec = {"a": BoundedTensorSpec((2,)), "b": BoundedTensorSpec((2,)), "action_mask": BoundedTensorSpec((3,))}
    assert FrameStacker(spec).paths == ["a", "b"]
    stacker = FrameStacker(spec, fields=["b"])
    steps = stream(spec, 10)
    seen = rolled_out(stacker, steps)[-1].observation
    assert {name: tuple(leaf.shape) for name, leaf in seen.items()} == {"a": (3, 2), "b": (3, 8), "action_mask": (3, 3)}
    replayed = stacker.transform_experience(Tape(steps).draw(6, 2), Tape(steps)).time_step.observation
    assert {name: leaf.shape[2:].numel() for name, leaf in replayed.items()} == {"a": 2, "b": 8, "action_mask": 3}


def test_bounds_are_stacked_too() -> None:
    spec = BoundedTensorSpec((2,), torch.float32, np.array([0.0, -3.0]), np.array([1.0, 5.0]))
    made = FrameStacker(spec, stack_size=2).transformed_observation_spec
    assert made == BoundedTensorSpec((4,), torch.float32, np.array([0.0, -3, 0, -3]), np.array([1.0, 5, 1, 5]))
    assert FrameStacker(TensorSpec((2,)), stack_size=2).transformed_observation_spec == TensorSpec((4,))


@pytest.mark.parametrize(
    ("spec", "axis", "range_"), [(TensorSpec((5,)), 1, "-1 to 0"), (TensorSpec(()), -2, "-1 to 0")]
)
def test_an_axis_that_is_not_there_is_refused(spec: Any, axis: int, range_: str) -> None:
    with pytest.raises(ConfigError, match=rf"FrameStacker.stack_axis = {axis}: .* from {range_}"):
        FrameStacker(spec, stack_axis=axis)
