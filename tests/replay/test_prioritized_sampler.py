"""Draws in proportion to priority, exactly where strata allow it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish.errors import NumericFault
from alfish.replay.prioritized_sampler import PrioritizedSampler


def sampler(num_envs: int = 1, max_length: int = 16, seed: int = 0) -> PrioritizedSampler:
    return PrioritizedSampler(num_envs, max_length, torch.Generator().manual_seed(seed))


def drawn(chosen: PrioritizedSampler, first: int, end: int, batch_size: int = 1000) -> tuple[list[int], list[float]]:
    """How often each position of the only environment was drawn, and its relative priority."""
    _, positions, relative = chosen.draw(np.array([first]), np.array([end]), batch_size)
    numbers = [int((positions == position).sum()) for position in range(first, end)]
    return numbers, [float(relative[positions == position][0].round(12)) for position in range(first, end)]


def update(chosen: PrioritizedSampler, priorities: dict[int, float]) -> None:
    positions = np.array(list(priorities))
    chosen.update(np.zeros_like(positions), positions, np.array(list(priorities.values())))


def test_counts_and_weights_of_stratified_draws_are_exact() -> None:
    chosen = sampler()
    assert drawn(chosen, 0, 1) == ([1000], [1.0])
    assert drawn(chosen, 0, 2) == ([500, 500], [1.0, 1.0])
    update(chosen, {0: 1.5, 1: 0.5})
    assert drawn(chosen, 0, 2) == ([750, 250], [1.5, 0.5])
    assert drawn(chosen, 0, 4) == ([300, 100, 300, 300], [1.2, 0.4, 1.2, 1.2])  # two new ones at the largest so far
    update(chosen, {2: 1.0, 3: 1.0})
    assert drawn(chosen, 0, 4) == ([375, 125, 250, 250], [1.5, 0.5, 1.0, 1.0])


def test_a_million_draws_follow_the_priorities() -> None:
    chosen = sampler(4, 250, seed=3)
    generator = np.random.default_rng(0)
    first, end = np.array([0, 5, 20, 100]), np.array([250, 200, 21, 340])
    chosen.draw(first, end, 1)
    priorities = []
    for env, (begin, stop) in enumerate(zip(first, end, strict=True)):
        priorities.append(generator.random(stop - begin) + 0.01)
        chosen.update(np.full(stop - begin, env), np.arange(begin, stop), priorities[-1])
    expected = np.concatenate(priorities)
    expected *= 1e6 / expected.sum()
    counts = np.zeros_like(expected)
    offset = np.concatenate(([0], (end - first).cumsum()[:-1])) - first
    for _ in range(1000):
        env_ids, positions, _ = chosen.draw(first, end, 1000)
        np.add.at(counts, offset[env_ids] + positions, 1)
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    degrees = len(expected) - 1
    assert chi_square < degrees + 3.1 * np.sqrt(2 * degrees)  # 99.9 %; strata make it smaller than independent draws
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()


def test_single_draws_are_independent_and_follow_the_priorities() -> None:
    chosen = sampler(seed=1)
    chosen.draw(np.array([0]), np.array([4]), 1)
    update(chosen, {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0})
    positions = [int(chosen.draw(np.array([0]), np.array([4]), 1)[1][0]) for _ in range(10_000)]
    expected = np.array([1000, 2000, 3000, 4000])
    assert ((np.bincount(positions) - expected) ** 2 / expected).sum() < 16.3  # 99.9 %, three degrees of freedom


def test_only_positions_that_can_start_a_sequence_are_drawn() -> None:
    chosen = sampler(2, 4)
    for first, end in [([0, 0], [3, 1]), ([0, 0], [2, 0]), ([5, 2], [8, 5]), ([30, 2], [32, 5]), ([30, 3], [33, 5])]:
        env_ids, positions, relative = chosen.draw(np.array(first), np.array(end), 60)
        seen = set(zip(env_ids.tolist(), positions.tolist(), strict=True))
        assert seen == {(env, p) for env in range(2) for p in range(first[env], end[env])}
        assert (relative == 1).all()


def test_one_number_for_all_environments_is_as_good_as_one_for_each() -> None:
    by_number, by_array, mixed = sampler(3, 8), sampler(3, 8), sampler(3, 8)
    generator = np.random.default_rng(0)
    spans = [(0, 3), (0, 6), (2, 9), (2, 9), (2, 7), (6, 14), (3, 5), (90, 97)]
    one_step_each = [(step, step + 7) for step in range(91, 110)]
    for step, (first, end) in enumerate(spans + one_step_each):
        arrays = np.full(3, first), np.full(3, end)
        draws = [
            by_number.draw(first, end, 12),
            by_array.draw(*arrays, 12),
            mixed.draw(*(arrays if step % 3 else (first, end)), 12),
        ]
        for draw in draws[1:]:
            assert [part.tolist() for part in draw] == [part.tolist() for part in draws[0]]
        priorities = generator.random(12) + 0.1
        for chosen, (env_ids, positions, _) in zip((by_number, by_array, mixed), draws, strict=True):
            chosen.update(env_ids, positions, priorities)
    states = [chosen.state_dict() for chosen in (by_number, by_array, mixed)]
    assert all(state["end"].tolist() == [116] * 3 for state in states)
    assert all(torch.equal(state["priorities"], states[0]["priorities"]) for state in states)


def test_the_newest_draw_takes_its_priorities_without_being_looked_for() -> None:
    one, other = sampler(2, 8), sampler(2, 8)
    for first, end in [(0, 3), (1, 8), (5, 13)]:
        env_ids, positions, _ = one.draw(first, end, 10)
        other.draw(first, end, 10)
        priorities = np.linspace(0.5, 4.0, 10)  # of what was drawn twice, the last one counts
        one.update_newest(priorities)
        other.update(env_ids, positions, priorities)
        assert torch.equal(one.state_dict()["priorities"], other.state_dict()["priorities"])
    with pytest.raises(NumericFault, match="positive and finite"):
        one.update_newest(np.zeros(10))


def test_priorities_of_what_stays_are_kept_when_the_ring_moves_on_or_the_length_changes() -> None:
    chosen = sampler(max_length=4)
    drawn(chosen, 0, 4)
    update(chosen, {0: 2.0, 1: 0.5, 2: 1.0, 3: 0.5})
    assert drawn(chosen, 1, 5, 800)[0] == [100, 200, 100, 400]  # 0 left, 4 came in at the largest so far
    assert drawn(chosen, 1, 3, 300)[0] == [100, 200]  # longer sequences
    assert drawn(chosen, 1, 4, 700)[0] == [100, 200, 400]  # 3 counts as new again


def test_an_update_of_what_was_overwritten_meanwhile_is_dropped() -> None:
    chosen = sampler(max_length=4)
    drawn(chosen, 0, 4)
    drawn(chosen, 2, 6)
    update(chosen, {0: 100.0, 3: 3.0})  # 4 is in the place of 0
    assert drawn(chosen, 2, 6, 600)[0] == [100, 300, 100, 100]


def test_a_repeated_position_takes_its_last_priority() -> None:
    chosen = sampler()
    drawn(chosen, 0, 2)
    chosen.update(np.zeros(3, np.int64), np.array([0, 1, 0]), np.array([9.0, 1.0, 3.0]))
    assert drawn(chosen, 0, 2, 400)[0] == [300, 100]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_priority_that_would_spoil_all_draws_is_refused(bad: float) -> None:
    chosen = sampler()
    drawn(chosen, 0, 2)
    with pytest.raises(NumericFault, match=r"positive and finite.*LossInfo\.priority"):
        update(chosen, {0: 1.0, 1: bad})


@pytest.mark.parametrize("max_length", [8, 4])
def test_saved_priorities_draw_the_same_also_in_a_shorter_ring(max_length: int) -> None:
    chosen = sampler(max_length=8)
    drawn(chosen, 3, 9)
    update(chosen, {position: float(position) for position in range(3, 9)})
    loaded = sampler(max_length=max_length, seed=5)
    drawn(loaded, 0, 3)
    loaded.load_state_dict(chosen.state_dict())
    assert drawn(loaded, 5, 9, 260)[0] == [50, 60, 70, 80]
    assert drawn(loaded, 6, 10, 290)[0] == [60, 70, 80, 80]
