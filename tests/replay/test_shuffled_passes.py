"""Every sequence once per pass, in another order each time."""

from __future__ import annotations

from itertools import chain

import torch

from alfish.replay.replay_buffer import ReplayBuffer
from alfish.replay.shuffled_passes import ShuffledPasses
from alfish.seeding import Seeds
from tests.replay.test_tape import unroll


def passes(seed: int = 0) -> ShuffledPasses:
    replay = ReplayBuffer(1, 13, torch.Generator())
    replay.add(unroll(0, 12, 1))
    return ShuffledPasses(replay, 2, [slice(0, 4), slice(4, 8), slice(8, 12)], Seeds(seed))


def starts(source: ShuffledPasses, number: int) -> list[list[float]]:
    return [source.next().time_step.observation[0].tolist() for _ in range(number)]


def test_a_pass_has_every_sequence_once() -> None:
    source = passes()
    for _ in range(3):
        assert sorted(chain(*starts(source, source.num_batches))) == list(range(12))


def test_passes_differ_and_the_seed_repeats_them() -> None:
    drawn = starts(passes(), 6)
    assert drawn[:3] != drawn[3:]
    assert starts(passes(), 6) == drawn
    assert starts(passes(seed=1), 6) != drawn


def test_it_goes_on_in_the_middle_of_a_pass() -> None:
    source = passes()
    starts(source, 4)
    resumed = passes()
    resumed.load_state_dict(source.state_dict())
    assert starts(resumed, 5) == starts(source, 5)
