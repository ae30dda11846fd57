from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from alfish.algorithms.transformers.base import DataTransformer
from alfish.algorithms.transformers.frame_stacker import FrameStacker
from alfish.algorithms.transformers.hindsight import HindsightExperienceTransformer
from alfish.algorithms.transformers.image import ImageScaleTransformer
from alfish.algorithms.transformers.normalizers import ObservationNormalizer, RewardNormalizer
from alfish.algorithms.transformers.rewards import RewardClipping, RewardScaling
from alfish.algorithms.transformers.sequential import SequentialDataTransformer, make_data_transformer
from alfish.algorithms.transformers.untransformed import UntransformedTimeStep
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec, TensorSpec
from tests.algorithms.transformers.tape import Tape, assert_equal, rolled_out, stream

SPEC = BoundedTensorSpec((2,), torch.uint8, 0, 255)
GOAL = BoundedTensorSpec((2,))
GOALS = {"observation": GOAL, "achieved_goal": GOAL, "desired_goal": GOAL}


def test_each_sees_what_the_one_before_it_made() -> None:
    made = make_data_transformer(
        [
            FrameStacker,
            ImageScaleTransformer,
            ObservationNormalizer,
            partial(RewardScaling, scale=10.0),
            RewardClipping,
        ],
        SPEC,
    )
    assert made.transformed_observation_spec == TensorSpec((8,))
    assert made.num_earlier_steps == 3
    steps = stream(SPEC, 40)
    rolled_out(made, steps)
    seen = rolled_out(made.eval(), steps)
    assert torch.equal(seen[5].reward, (steps[5].reward * 10).clamp(-1, 1))
    tape = Tape(steps)
    assert_equal(made.transform_experience(tape.draw(30, 3), tape).time_step, Tape(seen).draw(30, 3).time_step)


def test_one_or_none_will_do() -> None:
    assert type(make_data_transformer(None, SPEC)) is DataTransformer
    assert make_data_transformer(FrameStacker, SPEC).transformed_observation_spec.shape == (8,)
    nothing = make_data_transformer([], SPEC)
    steps = stream(SPEC, 3)
    assert_equal(rolled_out(nothing, steps), steps)


def test_statistics_are_in_the_state_dict_of_the_whole() -> None:
    made, other = (make_data_transformer([RewardNormalizer, ObservationNormalizer], GOAL) for _ in range(2))
    rolled_out(made, stream(GOAL, 10))
    assert "transformers.1.moments.0.mean" in made.state_dict()
    other.load_state_dict(made.state_dict())
    assert_equal(*(rolled_out(each.eval(), stream(GOAL, 5)) for each in (made, other)))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ([RewardClipping, FrameStacker], "[@FrameStacker, @RewardClipping]"),
        (
            [ObservationNormalizer, HindsightExperienceTransformer, UntransformedTimeStep],
            "[@UntransformedTimeStep, @HindsightExperienceTransformer, @ObservationNormalizer]",
        ),
        (
            [partial(FrameStacker, fields=["observation"]), UntransformedTimeStep, RewardNormalizer, RewardClipping],
            "[@UntransformedTimeStep, @FrameStacker, @RewardNormalizer, @RewardClipping]",
        ),
    ],
)
def test_a_wrong_order_is_refused_with_the_right_one(wrong: list[Any], right: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_data_transformer(wrong, GOALS)
    assert f"TrainerConfig.data_transformer_ctor = {right}" in str(refused.value)


def test_a_nested_sequence_counts_as_its_last_tier() -> None:
    inner = partial(SequentialDataTransformer, data_transformer_ctors=[UntransformedTimeStep, RewardClipping])
    with pytest.raises(ConfigError, match="The right order"):
        make_data_transformer([inner, FrameStacker], SPEC)


def test_goals_cannot_be_both_stacked_and_relabelled() -> None:
    with pytest.raises(ConfigError, match="stacks achieved_goal and desired_goal, which Hindsight"):
        make_data_transformer([HindsightExperienceTransformer, FrameStacker], GOALS)
    ctors = [HindsightExperienceTransformer, partial(FrameStacker, fields=["observation"])]
    shapes = {
        name: spec.shape for name, spec in make_data_transformer(ctors, GOALS).transformed_observation_spec.items()
    }
    assert shapes == {"observation": (8,), "achieved_goal": (2,), "desired_goal": (2,)}


def test_what_a_part_refuses_the_whole_refuses() -> None:
    made = make_data_transformer([HindsightExperienceTransformer, RewardClipping], GOALS)
    made.check_use(on_policy=False, sequence_length=2)
    with pytest.raises(ConfigError, match="sequences of 5 time steps"):
        made.check_use(on_policy=False, sequence_length=5)


def test_anything_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="data_transformer_ctor: made a int, which is not a DataTransformer"):
        make_data_transformer(lambda observation_spec: 3, SPEC)  # type: ignore[arg-type,return-value]
