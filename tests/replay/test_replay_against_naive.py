"""Whatever is done with it, the buffer holds and draws what plain lists say."""

from __future__ import annotations

from collections import Counter

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from alfish import nest
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.types import BatchInfo
from tests.replay.data import experience, times
from tests.replay.naive import NaiveReplay


class ReplayMachine(RuleBasedStateMachine):
    @initialize(
        envs=st.integers(1, 3), max_length=st.integers(2, 9), ignored=st.integers(0, 2), prioritized=st.booleans()
    )
    def build(self, envs: int, max_length: int, ignored: int, prioritized: bool) -> None:
        self.envs, self.prioritized, self.ignored = envs, prioritized, ignored
        self.buffer = self.make(max_length)
        self.naive = NaiveReplay(envs, max_length, ignored)
        self.drawn = BatchInfo()

    def make(self, max_length: int) -> ReplayBuffer:
        generator = torch.Generator().manual_seed(0)
        return ReplayBuffer(
            self.envs, max_length, generator, prioritized=self.prioritized, num_earliest_frames_ignored=self.ignored
        )

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        length = data.draw(st.integers(1, self.buffer.max_length - 1))
        some = st.lists(st.integers(0, self.envs - 1), min_size=1, unique=True)
        chosen = data.draw(st.none() | some)
        env_ids = list(range(self.envs)) if chosen is None else chosen
        block = experience([max(0, self.naive.count[env] - 1) for env in env_ids], length, env_ids)
        self.buffer.add(block, None if chosen is None else torch.tensor(chosen))
        self.naive.add(env_ids, length)

    @rule(number=st.integers(1, 4))
    def add_steps(self, number: int) -> None:
        """The first of them is not known to be stored; the others are."""
        everywhere = list(range(self.envs))
        block = experience([max(0, count - 1) for count in self.naive.count], number, everywhere)
        time_steps = [nest.index(block.time_step, row) for row in range(number + 1)]
        for row in range(number):
            action, info = nest.index((block.action, block.rollout_info), row)
            self.buffer.add_step(time_steps[row], action, info, (), time_steps[row + 1])
            self.naive.add(everywhere, 1)

    @rule()
    def clear(self) -> None:
        self.buffer.clear()
        self.naive.clear()

    @rule(length=st.integers(1, 5), reuse=st.booleans())
    def sample(self, length: int, reuse: bool) -> None:
        starts = self.naive.starts(length)
        assert self.buffer.has_sequences(length) == bool(starts)
        if not starts:
            return
        batch = self.buffer.sample(3 * len(starts), length, beta=-1.0, reuse=reuse)
        pairs = list(zip(batch.batch_info.env_ids.tolist(), batch.batch_info.positions.tolist(), strict=True))
        expected = torch.tensor([[position + step for _, position in pairs] for step in range(length)])
        assert torch.equal(times(batch), expected)
        assert torch.equal(batch.action % 1000, expected[:-1])
        assert torch.equal(batch.rollout_info[0] % 1000, expected[:-1].float())
        assert torch.equal(batch.time_step.prev_action % 1000, (expected - 1) % 1000)
        assert (batch.time_step.observation["name"][0] // 1000).tolist() == [env for env, _ in pairs]
        if not self.prioritized:
            assert Counter(pairs) == dict.fromkeys(starts, 3)
            return
        self.drawn = batch.batch_info
        priorities = self.naive.prioritize(length)
        mean = sum(priorities.values()) / len(priorities)
        relative = torch.tensor([priorities[pair] / mean for pair in pairs])
        torch.testing.assert_close(batch.batch_info.importance_weights, relative)
        # Equal parts of the total priority: a start is drawn as often as its share says, give or take one at each end.
        for pair, count in Counter(pairs).items():
            assert abs(count - 3 * priorities[pair] / mean) < 2

    @precondition(lambda self: self.drawn.env_ids != ())
    @rule(seed=st.integers(0, 99))
    def update(self, seed: int) -> None:
        priority = torch.rand(len(self.drawn.positions), generator=torch.Generator().manual_seed(seed)) * 3 + 0.1
        self.buffer.update_priorities(self.drawn, priority, 0.5, 1e-6)
        starts = zip(self.drawn.env_ids.tolist(), self.drawn.positions.tolist(), strict=True)
        self.naive.update(list(starts), priority.double().add(1e-6).sqrt().tolist())

    @rule()
    def save_and_load(self) -> None:
        loaded = self.make(self.buffer.max_length)
        loaded.load_state_dict(self.buffer.state_dict())
        self.buffer = loaded

    @invariant()
    def the_same_is_stored(self) -> None:
        if not hasattr(self, "naive"):
            return
        stored = [(o, c - 1) for o, c in zip(self.naive.oldest, self.naive.count, strict=True)]
        assert list(zip(self.buffer.oldest.tolist(), self.buffer.newest.tolist(), strict=True)) == stored
        assert self.buffer.num_transitions == sum(max(0, newest - oldest) for oldest, newest in stored)


TestReplay = ReplayMachine.TestCase
TestReplay.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
