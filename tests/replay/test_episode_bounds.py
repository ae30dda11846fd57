"""Bounds of episodes equal a search step by step, also when their beginning was overwritten."""

from __future__ import annotations

import numpy as np
import pytest

from alfish.replay.episode_bounds import EpisodeBounds
from alfish.replay.extent import Extent, spans
from alfish.replay.storage import flat_rows
from alfish.types import StepType

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST


class Stream:
    """Step types of some environments in a ring, and in full."""

    def __init__(self, num_envs: int, max_length: int) -> None:
        self.extent = Extent(num_envs, max_length)
        self.ring = np.zeros(num_envs * max_length, np.int64)
        self.full: list[list[int]] = [[] for _ in range(num_envs)]
        self.bounds = EpisodeBounds(self.extent, lambda rows: self.ring[rows])

    def add(self, env: int, step_types: list[int]) -> None:
        """One time step after the other, as if each came with an add of its own."""
        for step_type in step_types:
            position = len(self.full[env])
            self.full[env].append(step_type)
            self.ring[flat_rows(np.array(env), np.array(position), self.extent.max_length)] = step_type
            if position:
                self.extent.advance(1, np.array([env]))
            else:
                self.extent.newest[env] = 0

    def expected(self, env: int, position: int) -> tuple[int, int]:
        oldest, newest = self.extent.oldest[env], self.extent.newest[env]
        begin = end = position
        while begin > oldest and self.full[env][begin] != F:
            begin -= 1
        while end < newest and self.full[env][end] != L:
            end += 1
        return begin, end

    def check(self) -> None:
        env_ids, positions = spans(self.extent.oldest, self.extent.newest + 1)
        begins, ends = self.bounds.begin(env_ids, positions), self.bounds.end(env_ids, positions)
        found = list(zip(begins.tolist(), ends.tolist(), strict=True))
        assert found == [self.expected(e, p) for e, p in zip(env_ids.tolist(), positions.tolist(), strict=True)]


def test_bounds_of_a_finished_a_headless_and_a_running_episode() -> None:
    stream = Stream(1, 6)
    stream.add(0, [F, M, M, L, F, L, F, M])  # 0 and 1 are overwritten
    positions = np.arange(2, 8)
    env_ids = np.zeros_like(positions)
    assert stream.bounds.begin(env_ids, positions).tolist() == [2, 2, 4, 4, 6, 6]
    assert stream.bounds.end(env_ids, positions).tolist() == [3, 3, 5, 5, 7, 7]


def test_a_running_episode_that_goes_on_ends_later() -> None:
    stream = Stream(1, 8)
    stream.add(0, [F, M])
    assert stream.bounds.end(np.array([0]), np.array([0])).tolist() == [1]
    stream.add(0, [M, L, F])
    assert stream.bounds.end(np.array([0, 0]), np.array([0, 4])).tolist() == [3, 4]


@pytest.mark.parametrize("seed", range(8))
def test_bounds_equal_a_search_step_by_step(seed: int) -> None:
    """Some environments stand still, episodes of one and two steps and longer than the ring, reads far apart."""
    generator = np.random.default_rng(seed)
    stream = Stream(3, int(generator.integers(2, 12)))
    last = [L, L, L]
    for _ in range(60):
        for env in range(3):
            for _ in range(generator.integers(0, 4) if generator.random() > 0.1 else 30):
                ends = generator.random() < (0.02 if seed % 2 else 0.4)
                last[env] = F if last[env] == L else L if ends else M
                stream.add(env, [last[env]])
        if generator.random() < 0.6:
            stream.check()
    stream.check()
