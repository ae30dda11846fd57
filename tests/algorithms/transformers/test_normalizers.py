from __future__ import annotations

import pytest
import torch

from alfish.algorithms.transformers.base import DataTransformer
from alfish.algorithms.transformers.normalizers import ObservationNormalizer, RewardNormalizer
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import StepType, TimeStep, replace
from tests.algorithms.transformers.tape import Tape, assert_equal, rolled_out, stream

SPEC = BoundedTensorSpec((2,), torch.float32, -5.0, 20.0)


def test_observations_are_normalised_by_all_that_was_seen_so_far() -> None:
    normalizer = ObservationNormalizer(SPEC, clipping=0.0)
    steps = stream(SPEC, 50)
    seen = rolled_out(normalizer, steps)
    for t in (1, 10, 49):
        so_far = torch.cat([step.observation for step in steps[: t + 1]]).double()
        expected = (steps[t].observation - so_far.mean(0)) / so_far.std(0, correction=0)
        torch.testing.assert_close(seen[t].observation, expected.float())


@pytest.mark.parametrize("make", [ObservationNormalizer, RewardNormalizer])
def test_nothing_is_learned_in_evaluation_nor_from_replay(make: type[DataTransformer]) -> None:
    transformer = make(SPEC)
    steps = stream(SPEC, 20)
    rolled_out(transformer, steps)
    before = {name: value.clone() for name, value in transformer.state_dict().items()}
    transformer.transform_experience(Tape(steps).draw(8, 2), Tape(steps))
    transformer.eval()
    rolled_out(transformer, stream(SPEC, 20, seed=1))
    assert before
    assert_equal(transformer.state_dict() | {}, before)


@pytest.mark.parametrize("make", [ObservationNormalizer, RewardNormalizer])
def test_with_equal_statistics_rollout_and_replay_agree(make: type[DataTransformer]) -> None:
    transformer, restored = make(SPEC), make(SPEC)
    steps = stream(SPEC, 30)
    rolled_out(transformer, steps)
    restored.load_state_dict(transformer.state_dict())
    seen = rolled_out(restored.eval(), steps)
    replayed = transformer.transform_experience(Tape(steps).draw(40, 3), Tape(steps)).time_step
    assert_equal(replayed, Tape(seen).draw(40, 3).time_step)


def test_chosen_fields_clipping_and_scale_alone() -> None:
    spec = {"a": SPEC, "b": SPEC, "n": BoundedTensorSpec((), torch.int64)}
    assert len(ObservationNormalizer(spec).moments) == 2
    normalizer = ObservationNormalizer(spec, fields=["b"], clipping=0.5, zero_mean=False)
    steps = stream(spec, 40)
    seen = rolled_out(normalizer, steps)[-1].observation
    last = steps[-1].observation
    assert_equal((seen["a"], seen["n"]), (last["a"], last["n"]))
    everything = torch.cat([step.observation["b"] for step in steps]).double()
    expected = (last["b"] / everything.std(0, correction=0)).clamp(-0.5, 0.5)
    torch.testing.assert_close(seen["b"], expected.float())
    assert normalizer.transformed_observation_spec == {**spec, "b": TensorSpec((2,))}


def test_integers_cannot_be_normalised() -> None:
    with pytest.raises(ConfigError, match=r"normalises floats, but n is torch\.int64"):
        ObservationNormalizer({"n": BoundedTensorSpec((), torch.int64)}, fields=["n"])


def rewarded(rewards: list[float], step_types: list[int]) -> list[TimeStep]:
    (step,) = stream((), 1, batch_size=1)
    return [
        replace(step, reward=torch.tensor([reward]), step_type=torch.tensor([step_type]))
        for reward, step_type in zip(rewards, step_types, strict=True)
    ]


def test_rewards_are_divided_by_the_deviation_of_discounted_returns() -> None:
    first, mid, last = StepType.FIRST, StepType.MID, StepType.LAST
    steps = rewarded([0.0, 1.0, 2.0, 0.0, 4.0], [first, mid, last, first, mid])
    seen = rolled_out(RewardNormalizer((), discount=0.5), steps)
    returns = torch.tensor([1.0, 2.5, 4.0]).double()  # the episode that began anew owes nothing to the one before
    assert [step.reward.item() for step in seen[:2]] == [0.0, 1.0]  # one return has no deviation yet
    torch.testing.assert_close(seen[2].reward.double(), 2.0 / returns[:2].std(0, correction=0, keepdim=True))
    torch.testing.assert_close(seen[4].reward.double(), 4.0 / returns.std(0, correction=0, keepdim=True))


def test_without_discount_it_is_the_deviation_of_the_rewards() -> None:
    steps = stream((), 60)
    seen = rolled_out(RewardNormalizer((), discount=0.0, clipping=1.5), steps)[-1]
    rewards = torch.cat([step.reward[~step.is_first()] for step in steps]).double()
    expected = (steps[-1].reward / rewards.std(correction=0)).clamp(-1.5, 1.5)
    torch.testing.assert_close(seen.reward, expected.float())


def test_a_vector_reward_keeps_its_proportions() -> None:
    steps = [replace(step, reward=torch.stack([step.reward, 3 * step.reward], -1)) for step in stream((), 40)]
    seen = rolled_out(RewardNormalizer((), discount=0.0, clipping=0.0), steps)[-1].reward
    total = torch.cat([step.reward[~step.is_first()].sum(-1) for step in steps]).double()
    torch.testing.assert_close(seen, (steps[-1].reward / total.std(correction=0)).float())
