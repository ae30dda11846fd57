"""What one number of environments has stored is there for another, and no two episodes become one."""

from __future__ import annotations

import pytest
import torch

from alfish.errors import CheckpointMisfit
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.types import StepType
from tests.replay.data import experience, filled

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST


def loaded(before: ReplayBuffer, num_envs: int, max_length: int, prioritized: bool = False) -> ReplayBuffer:
    buffer = ReplayBuffer(num_envs, max_length, torch.Generator().manual_seed(1), prioritized=prioritized)
    buffer.load_state_dict(before.state_dict())
    return buffer


def transitions(buffer: ReplayBuffer) -> list[tuple[int, int, int]]:
    """Every stored transition that counts: the names of its two time steps and its action."""
    batch = buffer.get(*buffer.all_sequences(2), 2)
    counts = batch.time_step.step_type[0] != LAST
    names = batch.time_step.observation["name"][:, counts].long()
    return sorted(zip(*names.tolist(), batch.action[0, counts].tolist(), strict=True))


@pytest.mark.parametrize("num_envs", [1, 2, 3, 5, 6, 9])
def test_every_transition_is_kept_where_there_is_room(num_envs: int) -> None:
    before = filled(20, [7], num_envs=6)
    after = loaded(before, num_envs, 100)
    assert transitions(after) == transitions(before)
    assert len(transitions(after)) == 42


@pytest.mark.parametrize("num_envs", [1, 2, 4])
def test_no_transition_leads_from_one_environment_to_another(num_envs: int) -> None:
    after = loaded(filled(20, [15, 15], num_envs=5), num_envs, 25)
    found = transitions(after)
    assert found
    assert all(then == now + 1 == action + 1 for now, then, action in found)


def test_of_what_is_too_much_the_newest_of_every_environment_stays() -> None:
    after = loaded(filled(20, [9], num_envs=4), 2, 10)
    assert [now % 1000 for now, _, _ in transitions(after)] == [5, 6, 7, 8] * 4
    assert {now // 1000 for now, _, _ in transitions(after)} == {0, 1, 2, 3}


def test_what_one_environment_does_not_need_the_others_get() -> None:
    before = filled(20, [2], num_envs=2)
    before.add(experience([2], 8, [1]), torch.tensor([1]))
    after = loaded(before, 1, 10)
    assert [now for now, _, _ in transitions(after)] == [0, 1, *range(1004, 1010)]


def test_episodes_end_and_begin_at_the_seams() -> None:
    types = torch.tensor([[MID, LAST], [MID, FIRST], [LAST, MID], [FIRST, MID]], dtype=torch.int32)
    before = ReplayBuffer(2, 9, torch.Generator())
    before.add(experience(0, 3, range(2), types))
    after = loaded(before, 1, 9)
    stored = after.gather_all().time_step
    # The FIRST that nothing followed and the LAST that nothing came before are gone.
    assert stored.observation["name"][:, 0].tolist() == [0, 1, 2, 1001, 1002, 1003]
    assert stored.step_type[:, 0].tolist() == [MID, MID, LAST, FIRST, MID, MID]
    assert (stored.discount == 1).all()  # a seam is no real end
    env = torch.zeros(6, dtype=torch.int64)
    assert after.episode_end(env, torch.arange(6)).tolist() == [2, 2, 2, 5, 5, 5]
    assert after.episode_begin(env, torch.arange(6)).tolist() == [0, 0, 0, 3, 3, 3]


def test_an_episode_that_is_cut_in_two_bootstraps_at_the_cut() -> None:
    after = loaded(filled(9, [3], num_envs=2), 1, 9)
    assert after.gather_all().time_step.step_type[:, 0].tolist() == [MID, MID, MID, LAST, FIRST, MID, MID, MID]


@pytest.mark.parametrize("num_envs", [1, 2, 4, 7])
def test_new_data_may_come(num_envs: int) -> None:
    after = loaded(filled(9, [8], num_envs=4), num_envs, 9)
    start = [max(int(newest), 0) for newest in after.newest]
    for _ in range(5):
        after.add(experience(start, 4, range(num_envs)))
        start = [position + 4 for position in start]
    assert after.num_transitions == 8 * num_envs
    assert {now // 1000 for now, _, _ in transitions(after)} == set(range(num_envs))


@pytest.mark.parametrize("num_envs", [2, 4, 8])
def test_priorities_stay_with_their_time_steps(num_envs: int) -> None:
    before = filled(20, [7], num_envs=4, prioritized=True)
    drawn = before.sample(200, 2).batch_info
    favoured = (drawn.env_ids == 2) & (drawn.positions == 3)
    assert favoured.any()
    before.update_priorities(drawn, torch.where(favoured, 1000.0, 1e-6), alpha=1.0, eps=0.0)
    batch = loaded(before, num_envs, 40, prioritized=True).sample(100, 2)
    names = batch.time_step.observation["name"][0].long()
    # At seams a time step may begin a transition that did none before; it has the largest priority, as new ones do.
    seams = {7, 1007} if num_envs == 2 else set()
    assert {2003} <= set(names.tolist()) <= {2003} | seams


def test_too_little_room_is_told_with_both_numbers_and_what_to_do() -> None:
    with pytest.raises(
        CheckpointMisfit, match=r"of 6 environments, this run has 2.*num_parallel_environments = 6"
    ) as e:
        loaded(filled(20, [7], num_envs=6), 2, 5)
    assert "replay_buffer_length; 24 holds all of it" in str(e.value)


@pytest.mark.parametrize("num_envs", [2, 5])
def test_an_empty_replay_stays_empty(num_envs: int) -> None:
    after = loaded(filled(9, []), num_envs, 9)
    assert after.num_transitions == 0
    after.add(experience(0, 3, range(num_envs)))
    assert after.num_transitions == 3 * num_envs
