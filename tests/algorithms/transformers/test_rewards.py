from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish.algorithms.transformers.base import DataTransformer
from alfish.algorithms.transformers.rewards import (
    FunctionalRewardTransformer,
    RewardClipping,
    RewardScaling,
    RewardShifting,
)
from alfish.errors import ConfigError
from alfish.types import StepType, TimeStep, replace
from tests.algorithms.transformers.tape import Tape, assert_equal, rolled_out, stream

CASES: list[tuple[DataTransformer, list[float]]] = [
    (RewardScaling((), 0.5), [-1.5, 0.1, 2.0]),
    (RewardShifting((), 1.0), [-2.0, 1.2, 5.0]),
    (RewardClipping(()), [-1.0, 0.2, 1.0]),
    (RewardClipping((), (0.0, 3.0)), [0.0, 0.2, 3.0]),
    (FunctionalRewardTransformer((), torch.sign), [-1.0, 1.0, 1.0]),
]


def earned(*rewards: Any) -> TimeStep:
    (step,) = stream((), 1, batch_size=len(rewards))
    return replace(step, reward=torch.tensor(rewards), step_type=torch.full((len(rewards),), StepType.MID))


@pytest.mark.parametrize(("transformer", "expected"), CASES)
def test_exact_numbers_for_scalar_and_vector_rewards(transformer: DataTransformer, expected: list[float]) -> None:
    given = [-3.0, 0.2, 4.0]
    torch.testing.assert_close(transformer.transform(earned(*given)).reward, torch.tensor(expected))
    vector = transformer.transform(earned(given, given[::-1])).reward
    torch.testing.assert_close(vector, torch.tensor([expected, expected[::-1]]))


@pytest.mark.parametrize("transformer", [case[0] for case in CASES])
def test_rollout_and_replay_agree(transformer: DataTransformer) -> None:
    steps = stream((), 30)
    drawn = Tape(steps).draw(40, 3)
    replayed = transformer.transform_experience(drawn, Tape(steps)).time_step
    assert_equal(replayed, Tape(rolled_out(transformer, steps)).draw(40, 3).time_step)


def test_nothing_is_earned_at_the_first_step() -> None:
    step = replace(earned(0.0, 0.0), step_type=torch.tensor([StepType.FIRST, StepType.LAST]))
    assert RewardShifting((), 5.0).transform(step).reward.tolist() == [0.0, 5.0]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"RewardClipping.minmax = \(1\.0, -1\.0\)"):
        RewardClipping((), (1.0, -1.0))
    with pytest.raises(ConfigError, match="must keep the shape"):
        FunctionalRewardTransformer((), torch.sum).transform(earned(1.0, 2.0))
