from __future__ import annotations

import copy
import logging
from collections import Counter
from typing import Any

import pytest
import torch

from alfish import nest
from alfish.algorithms.transformers.hindsight import HindsightExperienceTransformer, SparseGoalReward
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Experience, StepType, TimeStep, replace
from tests.algorithms.transformers.tape import Tape, assert_equal, filled, rolled_out, stream

GOAL = BoundedTensorSpec((2,))
SPEC = {"observation": BoundedTensorSpec((3,)), "achieved_goal": GOAL, "desired_goal": GOAL}


def nearness(achieved: torch.Tensor, desired: torch.Tensor) -> torch.Tensor:
    """Tells every goal from every other one."""
    return -(achieved - desired).square().sum(-1)


def hindsight(proportion: float, seed: int = 0, **arguments: Any) -> HindsightExperienceTransformer:
    transformer = HindsightExperienceTransformer(SPEC, proportion, reward_fn=nearness, **arguments)
    transformer.attach(torch.Generator().manual_seed(seed))
    return transformer


def consistent(steps: list[TimeStep]) -> list[TimeStep]:
    """With the rewards that the reward function gives."""
    made = []
    for step in steps:
        reward = nearness(step.observation["achieved_goal"], step.observation["desired_goal"])
        made.append(replace(step, reward=reward.masked_fill(step.is_first(), 0.0)))
    return made


def possible_goals(tape: Tape, env: int, position: int) -> list[list[float]]:
    """What was achieved after a transition in the same episode, found by walking along it."""
    goals = []
    while position + 1 < len(tape.steps) and tape.steps[position].step_type[env] != StepType.LAST:
        position += 1
        goals.append(tape.steps[position].observation["achieved_goal"][env].tolist())
    return goals


def transitions(experience: Experience) -> list[tuple[int, int, int]]:
    info = experience.batch_info
    env_ids, positions = torch.as_tensor(info.env_ids).tolist(), torch.as_tensor(info.positions).tolist()
    return list(zip(range(len(env_ids)), env_ids, positions, strict=True))


@pytest.mark.parametrize("oldest", [0, 40])
def test_goals_and_rewards_equal_brute_force(oldest: int) -> None:
    tape = Tape(consistent(stream(SPEC, 120, end=0.1)), oldest)
    drawn = tape.draw(400, 2)
    made = hindsight(1.0).transform_experience(drawn, tape).time_step
    relabelled = 0
    for column, env, position in transitions(drawn):
        goals = possible_goals(tape, env, position)
        before, after = (nest.index(step, (slice(None), column)) for step in (drawn.time_step, made))
        if not goals:  # from LAST to FIRST: nothing was done
            assert_equal(after, before)
            continue
        relabelled += 1
        goal = after.observation["desired_goal"]
        assert torch.equal(goal[0], goal[1])
        assert goal[0].tolist() in goals
        assert after.reward[1] == nearness(before.observation["achieved_goal"][1], goal[1])
        assert after.reward[0] == before.reward[0]
        kept = {"achieved_goal", "observation"}
        assert_equal({k: after.observation[k] for k in kept}, {k: before.observation[k] for k in kept})
        assert_equal((after.discount, after.step_type), (before.discount, before.step_type))
    assert 250 < relabelled < 400


def test_it_reads_the_ring_as_it_reads_the_tape() -> None:
    tape = Tape(consistent(stream(SPEC, 200, end=0.1)), oldest=120)
    ring = filled(tape.steps, max_length=80)
    drawn = ring.sample(256, 2)
    assert_equal(*(hindsight(0.8).transform_experience(drawn, stored).time_step for stored in (ring, tape)))


def test_every_later_achievement_is_equally_likely() -> None:
    tape = Tape(consistent(stream(SPEC, 9, batch_size=1, end=0.0)))
    start, number = 3, 10_000  # five later steps
    drawn = tape.get(torch.zeros(number).long(), torch.full((number,), start), 2)
    goals = hindsight(1.0).transform_experience(drawn, Tape(tape.steps)).time_step.observation["desired_goal"][0]
    counts = Counter(tuple(goal) for goal in goals.tolist())
    assert set(counts) == {tuple(goal) for goal in possible_goals(tape, 0, start)}
    expected = number / 5
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 18.5  # chi-square, 4, p = 0.001


@pytest.mark.parametrize("proportion", [0.0, 0.3, 0.8])
def test_the_proportion_of_relabelled_transitions(proportion: float) -> None:
    tape = Tape(consistent(stream(SPEC, 30, end=0.0)))
    drawn = tape.draw(2000, 2)
    made = hindsight(proportion).transform_experience(drawn, tape).time_step
    changed = (made.observation["desired_goal"][0] != drawn.time_step.observation["desired_goal"][0]).any(-1)
    assert changed.float().mean() == pytest.approx(proportion, abs=0.04)
    untouched = nest.map(lambda leaf: leaf[:, ~changed], (made, drawn.time_step))
    assert_equal(*untouched)


def test_what_is_stored_and_drawn_stays_and_the_seed_decides() -> None:
    tape = Tape(consistent(stream(SPEC, 50)))
    stored, drawn = copy.deepcopy(tape.steps), tape.draw(64, 2)
    before = copy.deepcopy(drawn)
    one, same, other = (hindsight(0.8, seed).transform_experience(drawn, tape) for seed in (1, 1, 2))
    assert_equal(tape.steps, stored)
    assert_equal(drawn, before)
    assert_equal(one, same)
    assert not torch.equal(one.time_step.reward, other.time_step.reward)


def test_nothing_changes_at_rollout() -> None:
    steps = stream(SPEC, 5)
    assert_equal(rolled_out(hindsight(1.0), steps), steps)


def test_vector_goals_under_other_names() -> None:
    spec = {"hand": {"at": GOAL}, "task": GOAL}
    transformer = HindsightExperienceTransformer(spec, 1.0, "hand.at", "task", nearness)
    tape = Tape(stream(spec, 30, end=0.0))
    made = transformer.transform_experience(tape.draw(10, 2), tape).time_step
    assert (made.reward[1] <= 0).all()
    assert transformer.paths == ["hand.at", "task"]


def test_the_sparse_reward_of_gymnasiums_goal_environments() -> None:
    achieved = torch.tensor([[0.0, 0.0], [0.03, 0.04], [0.06, 0.0]])
    assert SparseGoalReward(threshold=0.051)(achieved, torch.zeros(3, 2)).tolist() == [0.0, 0.0, -1.0]


def test_a_reward_function_that_is_not_the_environments_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    tape = Tape(stream(SPEC, 30))
    transformer = hindsight(0.5)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            transformer.transform_experience(tape.draw(10, 2), tape)
    (record,) = caplog.records
    assert "reward_fn differs from the environment's rewards" in record.getMessage()
    caplog.clear()
    honest = Tape(consistent(stream(SPEC, 30)))
    with caplog.at_level(logging.WARNING):
        hindsight(0.5).transform_experience(honest.draw(10, 2), honest)
    assert not caplog.records


def test_wrong_use_is_refused() -> None:
    tape = Tape(stream(SPEC, 10))
    with pytest.raises(ConfigError, match=r"sequences of 3 time steps are drawn.*mini_batch_length = 2"):
        hindsight(0.8).transform_experience(tape.draw(4, 3), tape)
    with pytest.raises(ConfigError, match="an on-policy algorithm has none"):
        hindsight(0.8).check_use(on_policy=True, sequence_length=2)
    with pytest.raises(ConfigError, match="desired_goal_field: the observation has no field 'goal'"):
        hindsight(0.8, desired_goal_field="goal")
    with pytest.raises(ConfigError, match=r"achieved_goal has shape \(2,\) and observation \(3,\)"):
        hindsight(0.8, desired_goal_field="observation")
    with pytest.raises(ConfigError, match="name one of them"):
        HindsightExperienceTransformer({"a": {"x": TensorSpec(()), "y": TensorSpec(())}}, achieved_goal_field="a")
    bad = HindsightExperienceTransformer(SPEC, reward_fn=lambda achieved, desired: achieved - desired)
    with pytest.raises(ConfigError, match=r"reward_fn made rewards of shape \(4, 2\)"):
        bad.transform_experience(tape.draw(4, 2), tape)
