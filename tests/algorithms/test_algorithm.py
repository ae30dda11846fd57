"""Sequences are trained in one batch without memory, and step by step with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish import nest
from alfish.algorithms.algorithm import Algorithm
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.specs import TensorSpec
from alfish.summary.summary import Summary
from alfish.types import AlgStep, Experience, LossInfo, StepType, TimeStep


class Adder(Algorithm):
    """Its memory is the sum of the observations of the episode; its info is the sum so far plus the stored info."""

    def __init__(self, memory: bool) -> None:
        super().__init__(train_state_spec=TensorSpec(()) if memory else ())
        self.calls = 0

    def train_step(self, time_step: TimeStep, state: Any, rollout_info: Any) -> AlgStep:
        self.calls += 1
        total = time_step.observation + (0 if state == () else state)
        return AlgStep(state=() if state == () else total, info=total + rollout_info)


def steps(observations: list[list[float]], kinds: list[list[int]]) -> TimeStep:
    observation = torch.tensor(observations)
    return TimeStep(
        step_type=torch.tensor(kinds, dtype=torch.int32),
        reward=observation,
        discount=torch.ones_like(observation),
        observation=observation,
        prev_action=observation,
        env_id=torch.zeros_like(observation, dtype=torch.int64),
    )


MID = [[1, 1], [1, 1], [1, 1]]
SEQUENCE = [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
INFO = torch.full((3, 2), 100.0)


def test_without_memory_one_flat_call() -> None:
    algorithm = Adder(memory=False)
    info = algorithm.train_steps(steps(SEQUENCE, MID), (), INFO)
    assert info.tolist() == [[101, 110], [102, 120], [103, 130]]
    assert algorithm.calls == 1


def test_stepwise_by_choice_gives_the_same() -> None:
    algorithm = Adder(memory=False)
    algorithm.stepwise_training = True
    assert algorithm.train_steps(steps(SEQUENCE, MID), (), INFO).tolist() == [[101, 110], [102, 120], [103, 130]]
    assert algorithm.calls == 3


@pytest.mark.parametrize(("state", "expected"), [((), [[101, 110], [103, 130], [106, 160]]), (5.0, None)])
def test_with_memory_from_zeros_or_from_the_given_state(state: Any, expected: Any) -> None:
    algorithm = Adder(memory=True)
    given = state if state == () else torch.full((2,), state)
    info = algorithm.train_steps(steps(SEQUENCE, MID), given, INFO)
    assert info.tolist() == (expected or [[106, 115], [108, 135], [111, 165]])
    assert algorithm.calls == 3


def test_memory_starts_anew_at_first() -> None:
    kinds = [[1, 1], [StepType.LAST, 1], [StepType.FIRST, 1]]
    info = Adder(memory=True).train_steps(steps(SEQUENCE, kinds), torch.full((2,), 5.0), INFO)
    assert info.tolist() == [[106, 115], [108, 135], [103, 165]]


def test_networks_see_the_rows_that_are_asked_for_and_with_memory_where_episodes_start() -> None:
    sequence = steps(SEQUENCE, [[1, 0], [2, 1], [0, 1]])
    seen = Adder(memory=True).seen_in(sequence, slice(1, None))
    assert seen.observation.tolist() == SEQUENCE[1:]
    assert seen.is_first is not None
    assert seen.is_first.tolist() == [[False, False], [True, False]]
    assert Adder(memory=False).seen_in(sequence).is_first is None
    assert Adder(memory=False).seen_in(sequence).observation is sequence.observation


def test_compute_loss_trains_the_actions_and_leaves_the_last_time_step_alone() -> None:
    class Loss(Adder):
        def calc_loss(self, info: Any) -> LossInfo:
            return LossInfo(loss=info)

    experience = Experience(
        time_step=steps([*SEQUENCE, [9.0, 9.0]], [*MID, [1, 1]]),
        action=INFO,
        rollout_info=INFO,
        state=torch.tensor([[5.0, 5.0], [0.0, 0.0], [0.0, 0.0]]),
    )
    assert Loss(memory=True).compute_loss(experience).loss.tolist() == [[106, 115], [108, 135], [111, 165]]


def test_attach_reaches_the_whole_tree_with_a_stream_for_each() -> None:
    root = Adder(memory=False)
    root.child = Adder(memory=False)
    progress, summary = Progress(iterations=3), Summary.disabled()
    root.attach(progress, summary, Seeds(1))
    assert root.child.progress is root.progress is progress
    assert root.child.summary is summary
    draws = [torch.rand(1, generator=algorithm.generator).item() for algorithm in root.tree()]
    assert len(set(draws)) == 2


@pytest.mark.parametrize("method", ["rollout_step", "predict_step"])
def test_what_cannot_act_says_so(method: str) -> None:
    with pytest.raises(NotImplementedError, match="Adder has no rollout_step"):
        getattr(Adder(memory=False), method)(steps(SEQUENCE, MID), ())


def test_states_of_acting_default_to_that_of_training() -> None:
    algorithm = Adder(memory=True)
    assert algorithm.rollout_state_spec == algorithm.predict_state_spec == TensorSpec(())
    assert nest.leaves(Adder(memory=False).predict_state_spec) == []
