"""The ring holds what a plain list holds."""

from __future__ import annotations

import pytest
import torch

from alfish.errors import ConfigError
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.types import Experience, TimeStep

ENVS = 3


def experience(start: int, length: int) -> Experience:
    """Observation and action of environment e at time t are `100 * e + t`."""
    times = torch.arange(start, start + length + 1).unsqueeze(1) + 100 * torch.arange(ENVS)
    step = TimeStep(
        step_type=torch.ones_like(times, dtype=torch.int32),
        reward=times.float(),
        discount=torch.ones(times.shape),
        observation=times.float(),
        prev_action=times - 1,
        env_id=torch.arange(ENVS).expand_as(times),
    )
    return Experience(time_step=step, action=times[:-1])


def filled(max_length: int, lengths: list[int]) -> ReplayBuffer:
    buffer = ReplayBuffer(ENVS, max_length, torch.Generator().manual_seed(0))
    start = 0
    for length in lengths:
        buffer.add(experience(start, length))
        start += length
    return buffer


@pytest.mark.parametrize("lengths", [[4], [2, 2], [3, 3, 3, 3], [1] * 11])
def test_samples_are_consecutive_in_time_also_across_the_wrap(lengths: list[int]) -> None:
    buffer = filled(7, lengths)
    newest = sum(lengths)
    oldest = max(0, newest - 6)
    batch = buffer.sample(500, 3)
    observations, actions = batch.time_step.observation, batch.action
    assert observations.shape == (3, 500)
    assert actions.shape == (2, 500)
    assert (observations.diff(dim=0) == 1).all()
    assert torch.equal(actions.float(), observations[:-1])
    starts = set((observations[0] % 100).int().tolist())
    assert starts == set(range(oldest, newest - 1))
    assert set((observations[0] // 100).int().tolist()) == {0, 1, 2}


def test_the_newest_transition_is_there_at_once() -> None:
    buffer = filled(10, [1])
    assert buffer.num_transitions == ENVS
    assert buffer.sample(4, 2).time_step.observation[1].remainder(100).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("length", "stored"), [(2, 6), (3, 6), (4, 6), (5, 4)])
def test_all_sequences_hold_every_action_once(length: int, stored: int) -> None:
    buffer = filled(7, [5, 4])
    envs, starts = buffer.all_sequences(length)
    actions = buffer.get(envs, starts, length).action.flatten().tolist()
    newest = 9
    assert sorted(actions) == sorted(100 * e + t for e in range(ENVS) for t in range(newest - stored, newest))


def test_clear_keeps_only_the_newest_time_step() -> None:
    buffer = filled(10, [4])
    buffer.clear()
    assert buffer.num_transitions == 0
    buffer.add(experience(4, 2))
    envs, starts = buffer.all_sequences(2)
    assert sorted(buffer.get(envs, starts, 2).action.remainder(100).unique().tolist()) == [4, 5]


def test_an_unroll_longer_than_the_buffer_is_refused_with_the_length_to_use() -> None:
    with pytest.raises(ConfigError, match=r"replay_buffer_length = 4 cannot hold one unroll of 4 steps.*use 5 or more"):
        filled(4, [4])


def test_stored_tensors_have_no_graph() -> None:
    data = experience(0, 2)
    data.time_step.reward.requires_grad_()
    buffer = ReplayBuffer(ENVS, 8, torch.Generator().manual_seed(0))
    buffer.add(data)
    assert not buffer.sample(2, 2).time_step.reward.requires_grad


@pytest.mark.parametrize(("lengths", "longest"), [([], 0), ([1], 2), ([2, 1], 4), ([3, 3, 3], 7)])
def test_it_says_which_sequences_it_can_give(lengths: list[int], longest: int) -> None:
    buffer = filled(7, lengths)
    assert [length for length in range(2, 10) if buffer.has_sequences(length)] == list(range(2, longest + 1))
