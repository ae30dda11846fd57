"""Recorded experience keeps its order, whatever it comes from."""

from __future__ import annotations

import torch

from alfish import nest
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.replay.tape import Tape, join, newest_of, tapes_of_replay
from alfish.types import Experience, StepType, TimeStep

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST


def tape(*step_types: int, start: int = 0) -> Tape:
    """A tape that counts on in observations, rewards and actions."""
    number = torch.arange(start, start + len(step_types))
    return Tape(
        step_type=torch.tensor(step_types, dtype=torch.int32),
        reward=number.float(),
        discount=torch.ones(len(step_types)),
        observation={"count": number.float().unsqueeze(-1)},
        action=number,
    )


def unroll(first: int, length: int, num_environments: int = 2, episode: int = 5) -> Experience:
    """`length` steps from position `first` on; environment e counts from 1000 e."""
    position = torch.arange(first, first + length + 1).unsqueeze(1).expand(-1, num_environments)
    number = position + 1000 * torch.arange(num_environments)
    place = position % episode
    step_type = torch.where(place == 0, FIRST, torch.where(place == episode - 1, LAST, MID)).int()
    time_step = TimeStep(step_type, number.float(), torch.ones(number.shape), number.float(), (), number, ())
    return Experience(time_step, number[:-1])


def test_a_ring_that_wrapped_is_read_in_the_order_of_time() -> None:
    replay = ReplayBuffer(2, 8, torch.Generator())
    for first in range(0, 21, 3):  # 21 steps into 8 rows
        replay.add(unroll(first, 3))
    tapes = tapes_of_replay(replay.state_dict())
    assert [each.observation.tolist() for each in tapes] == [
        [14, 15, 16, 17, 18, 19, 20, 21],
        [1014, 1015, 1016, 1017, 1018, 1019, 1020, 1021],
    ]
    assert tapes[0].action.tolist() == [14, 15, 16, 17, 18, 19, 20, 20]  # of the newest none is known yet
    assert tapes[0].step_type.tolist() == [LAST, FIRST, MID, MID, MID, LAST, FIRST, MID]


def test_environments_that_stored_nothing_are_left_out() -> None:
    replay = ReplayBuffer(3, 8, torch.Generator())
    replay.add(unroll(0, 3, 1), torch.tensor([1]))
    (only,) = tapes_of_replay(replay.state_dict())
    assert only.observation.tolist() == [0, 1, 2, 3]


def test_seams_end_and_begin_episodes_as_at_a_time_limit() -> None:
    joined = join([tape(MID, MID, LAST, FIRST, MID), tape(FIRST, MID, start=10)])
    assert joined is not None
    assert joined.step_type.tolist() == [FIRST, MID, LAST, FIRST, LAST, FIRST, LAST]
    assert joined.discount.tolist() == [1.0] * 7
    assert joined.action.tolist() == [0, 1, 2, 3, 4, 10, 11]
    assert (joined.num_steps, joined.num_episodes) == (4, 3)


def test_ends_and_beginnings_without_a_transition_are_left_out() -> None:
    joined = join([tape(LAST, FIRST, MID, LAST, FIRST), tape(FIRST), tape()])
    assert joined is not None
    assert joined.action.tolist() == [1, 2, 3]
    assert joined.step_type.tolist() == [FIRST, MID, LAST]
    assert join([tape(FIRST), tape(LAST, FIRST)]) is None


def test_the_newest_rows_are_taken_equally_from_all() -> None:
    tapes = [tape(FIRST, MID, MID, LAST), tape(FIRST, MID, LAST, start=10)]
    assert [each.action.tolist() for each in newest_of(tapes, 5)] == [[1, 2, 3], [11, 12]]
    assert [len(each) for each in newest_of(tapes, 100)] == [4, 3]


def test_as_experience_the_action_before_is_known_and_nothing_leads_into_a_first_step() -> None:
    experience = tape(FIRST, MID, LAST, FIRST, LAST, start=1).experience()
    assert experience.time_step.prev_action[:, 0].tolist() == [0, 1, 2, 0, 4]
    assert experience.time_step.reward.shape == (5, 1)
    assert experience.action[:, 0].tolist() == [1, 2, 3, 4]
    again = Tape.of(experience)
    assert nest.same_structure(again, tape(FIRST))
    assert again.action.tolist() == [1, 2, 3, 4, 4]


def test_other_data_have_another_fingerprint() -> None:
    one = tape(FIRST, MID, LAST)
    assert one.fingerprint == tape(FIRST, MID, LAST).fingerprint
    assert len({one.fingerprint, tape(FIRST, MID, LAST, start=1).fingerprint, tape(FIRST, MID, MID).fingerprint}) == 3
