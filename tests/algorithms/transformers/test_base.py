from __future__ import annotations

import torch

from alfish.algorithms.transformers.base import DataTransformer
from alfish.algorithms.transformers.rewards import RewardScaling
from alfish.algorithms.transformers.sequential import SequentialDataTransformer
from alfish.specs import TensorSpec
from alfish.types import TimeStep, replace
from tests.algorithms.transformers.tape import Tape, assert_equal, stream

SPEC = TensorSpec((2,))


class Negated(DataTransformer):
    def transform(self, time_step: TimeStep) -> TimeStep:
        return replace(time_step, observation=-time_step.observation)


def steps_of(length: int) -> list[TimeStep]:
    return [replace(step, observation=torch.randn(3, 2)) for step in stream((), length)]


def test_one_method_serves_rollout_and_replay() -> None:
    steps = steps_of(5)
    transformer = Negated(SPEC)
    seen, state = transformer.transform_timestep(steps[0], ())
    assert_equal(seen.observation, -steps[0].observation)
    assert state == ()
    drawn = Tape(steps).draw(4, 3)
    assert_equal(
        transformer.transform_experience(drawn, Tape(steps)).time_step.observation, -drawn.time_step.observation
    )


def test_specs_stay_unless_given() -> None:
    assert Negated(SPEC).transformed_observation_spec == SPEC
    assert Negated(SPEC).state_spec == ()
    assert Negated(SPEC, TensorSpec((3,))).transformed_observation_spec == TensorSpec((3,))


def test_attach_reaches_nested_transformers() -> None:
    generator = torch.Generator()
    outer = SequentialDataTransformer(SPEC, [Negated, lambda observation_spec: RewardScaling(observation_spec, 2.0)])
    outer.attach(generator)
    assert outer.generator is generator
    assert all(inner.generator is generator for inner in outer.transformers)


def test_by_itself_it_changes_nothing() -> None:
    (step,) = steps_of(1)
    assert DataTransformer(SPEC).transform_timestep(step, ()) == (step, ())
