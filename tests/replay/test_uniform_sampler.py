"""All starts are equally likely, and every seed draws its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish.replay.uniform_sampler import Strata, UniformSampler

FIRST, END = np.array([3, 0, 10]), np.array([5, 0, 17])  # nine starts; the second environment has none


def sampler(seed: int = 0, with_replacement: bool = False) -> UniformSampler:
    return UniformSampler(torch.Generator().manual_seed(seed), with_replacement)


def counts(env_ids: np.ndarray, positions: np.ndarray) -> dict[tuple[int, int], int]:
    pairs, number = np.unique(np.stack((env_ids, positions)), axis=1, return_counts=True)
    return dict(zip(zip(*pairs.tolist(), strict=True), number.tolist(), strict=True))


def test_a_batch_that_is_a_multiple_of_the_starts_takes_each_equally_often() -> None:
    drawn = counts(*sampler().draw(FIRST, END, 9 * 4))
    starts = [(0, 3), (0, 4), *((2, position) for position in range(10, 17))]
    assert drawn == dict.fromkeys(starts, 4)


@pytest.mark.parametrize("with_replacement", [False, True])
def test_every_start_is_equally_likely_whatever_its_environment_holds(with_replacement: bool) -> None:
    drawer = sampler(1, with_replacement)
    total: dict[tuple[int, int], int] = {}
    for _ in range(4500):
        for start, count in counts(*drawer.draw(FIRST, END, 4)).items():
            total[start] = total.get(start, 0) + count
    expected = 4500 * 4 / 9
    assert len(total) == 9
    chi_square = sum((count - expected) ** 2 / expected for count in total.values())
    assert chi_square < 26.1  # 99.9 % quantile for eight degrees of freedom


def test_draws_with_replacement_may_repeat() -> None:
    env_ids, positions = sampler(with_replacement=True).draw(np.array([0]), np.array([100]), 100)
    assert len(np.unique(positions)) < 80
    assert not env_ids.any()


def test_seeds_give_different_streams_and_the_same_seed_the_same() -> None:
    first, end = np.zeros(4, np.int64), np.full(4, 1000)
    streams = [sampler(seed).draw(first, end, 64)[1].tolist() for seed in (0, 0, 1)]
    assert streams[0] == streams[1]
    assert streams[0] != streams[2]


def test_positions_of_different_environments_are_uncorrelated() -> None:
    drawer, first, end = sampler(), np.zeros(2, np.int64), np.full(2, 1000)
    positions = np.stack([drawer.draw(first, end, 2)[1] for _ in range(4000)])
    assert abs(np.corrcoef(positions.T)[0, 1]) < 0.06


def test_strata_lie_in_their_parts() -> None:
    fractions = Strata(torch.Generator().manual_seed(0)).draw(1000)
    assert (np.floor(fractions * 1000) == np.arange(1000)).all()


def test_strata_take_from_the_stream_what_torch_takes() -> None:
    """The memory that they are drawn into is used again: neither the stream nor earlier draws may show it."""
    strata, stream = Strata(torch.Generator().manual_seed(2)), torch.Generator().manual_seed(2)
    draws = [(count, strata.draw(count)) for count in (5, 8, 5, 0, 5)]
    for count, fractions in draws:
        expected = (torch.rand(count, generator=stream, dtype=torch.float64) + torch.arange(count)) / count
        assert fractions.tolist() == expected.tolist()


@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("num_environments", [1, 3])
def test_environments_that_hold_the_same_are_drawn_from_as_any_others(
    num_environments: int, with_replacement: bool
) -> None:
    one, other = sampler(4, with_replacement), sampler(4, with_replacement)
    for first, end in [(0, 1), (3, 20), (7, 1000)]:
        drawn = one.draw_alike(first, end, num_environments, 32)
        expected = other.draw(np.full(num_environments, first), np.full(num_environments, end), 32)
        assert [part.tolist() for part in drawn] == [part.tolist() for part in expected]


@pytest.mark.parametrize("with_replacement", [False, True])
def test_of_a_single_environment_all_starts_are_drawn_and_no_others(with_replacement: bool) -> None:
    sampler = UniformSampler(torch.Generator().manual_seed(0), with_replacement)
    env_ids, positions = sampler.draw(np.array([5]), np.array([9]), 400)
    assert set(env_ids.tolist()) == {0}
    assert set(positions.tolist()) == {5, 6, 7, 8}
    if not with_replacement:
        assert np.bincount(positions)[5:].tolist() == [100] * 4, "one from each of 400 equal parts"
