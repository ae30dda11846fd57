from __future__ import annotations

from functools import partial

import torch

from alfish.algorithms.transformers.frame_stacker import FrameStacker
from alfish.algorithms.transformers.rewards import RewardScaling
from alfish.algorithms.transformers.sequential import SequentialDataTransformer
from alfish.algorithms.transformers.untransformed import UntransformedTimeStep
from alfish.specs import BoundedTensorSpec
from tests.algorithms.transformers.tape import Tape, assert_equal, rolled_out, stream

SPEC = BoundedTensorSpec((2,))


def test_the_raw_time_step_survives_those_after_it_at_rollout_and_at_replay() -> None:
    transformer = SequentialDataTransformer(
        SPEC, [UntransformedTimeStep, FrameStacker, partial(RewardScaling, scale=3.0)]
    )
    steps = stream(SPEC, 20)
    for raw, seen in zip(steps, rolled_out(transformer, steps), strict=True):
        assert_equal(seen.untransformed, raw)
        assert torch.equal(seen.reward, raw.reward * 3)
        assert seen.observation.shape == (3, 8)
    drawn = Tape(steps).draw(5, 4)
    assert_equal(transformer.transform_experience(drawn, Tape(steps)).time_step.untransformed, drawn.time_step)
