"""What is sampled is what was stored, drawn as promised."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
import torch

from alfish import nest
from alfish.errors import CheckpointError, ConfigError
from alfish.replay import storage as storage_module
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.replay.structure import describe
from alfish.specs import TensorSpec
from alfish.types import BatchInfo, Experience, Nest, StepType, TimeStep, replace
from tests.replay.data import ENVS, experience, filled, times


@pytest.mark.parametrize("lengths", [[4], [2, 2], [3, 3, 3, 3], [1] * 11])
@pytest.mark.parametrize("batch_size", [2, 3, 500])
def test_samples_are_consecutive_in_time_also_across_the_wrap(lengths: list[int], batch_size: int) -> None:
    buffer = filled(7, lengths)
    newest = sum(lengths)
    oldest = max(0, newest - 6)
    batch = buffer.sample(batch_size, 3)
    observations, actions = batch.time_step.observation["name"], batch.action
    assert observations.shape == (3, batch_size)
    assert actions.shape == (2, batch_size)
    assert (observations.diff(dim=0) == 1).all()
    assert torch.equal(actions.float(), observations[:-1])
    assert torch.equal(batch.rollout_info[0], observations[:-1])
    assert torch.equal(times(batch)[0], batch.batch_info.positions)
    assert torch.equal((observations[0] // 1000).long(), batch.batch_info.env_ids)
    if batch_size == 500:
        assert set(times(batch)[0].tolist()) == set(range(oldest, newest - 1))
        assert set(batch.batch_info.env_ids.tolist()) == {0, 1, 2}


def test_the_newest_transition_is_there_at_once() -> None:
    buffer = filled(10, [1])
    assert buffer.num_transitions == ENVS
    assert times(buffer.sample(4, 2))[1].tolist() == [1, 1, 1, 1]


def test_some_environments_may_add_alone() -> None:
    buffer = filled(5, [2])
    buffer.add(experience([2, 2], 4, [2, 0]), torch.tensor([2, 0]))
    assert buffer.newest.tolist() == [6, 2, 6]
    assert buffer.oldest.tolist() == [2, 0, 2]
    assert buffer.num_transitions == 4 + 2 + 4
    buffer.add(experience([6, 2, 6], 1))
    batch = buffer.get(torch.tensor([0, 1, 2]), torch.tensor([3, 0, 3]), 4)
    assert times(batch).T.tolist() == [[3, 4, 5, 6], [0, 1, 2, 3], [3, 4, 5, 6]]
    drawn = buffer.sample(10, 4).batch_info
    pairs = sorted(zip(drawn.env_ids.tolist(), drawn.positions.tolist(), strict=True))
    assert pairs == sorted([(0, 3), (0, 4), (1, 0), (2, 3), (2, 4)] * 2)  # every start equally often


def test_environments_at_the_same_position_may_add_in_any_order() -> None:
    buffer = filled(5, [2])
    buffer.add(experience(2, 1, [2, 0, 1]), torch.tensor([2, 0, 1]))
    assert buffer.gather_all().time_step.observation["name"][3].tolist() == [3, 1003, 2003]


@pytest.mark.parametrize(("length", "stored"), [(2, 6), (3, 6), (4, 6), (5, 4)])
def test_all_sequences_hold_every_action_once(length: int, stored: int) -> None:
    buffer = filled(7, [5, 4])
    envs, starts = buffer.all_sequences(length)
    actions = buffer.get(envs, starts, length).action.flatten().tolist()
    newest = 9
    assert sorted(actions) == sorted(1000 * e + t for e in range(ENVS) for t in range(newest - stored, newest))


def test_all_sequences_of_environments_that_hold_differently_much() -> None:
    buffer = filled(9, [2])
    buffer.add(experience([2], 3, [1]), torch.tensor([1]))
    envs, starts = buffer.all_sequences(3)
    assert sorted(zip(envs.tolist(), starts.tolist(), strict=True)) == [(0, 0), (1, 1), (1, 3), (2, 0)]


def test_everything_at_once_comes_in_the_order_of_time_also_after_the_wrap() -> None:
    everything = filled(5, [3, 4]).gather_all()
    assert times(everything).tolist() == [[t] * ENVS for t in range(3, 8)]
    assert everything.action[:, 2].tolist() == [2003, 2004, 2005, 2006]


def test_everything_at_once_is_refused_when_environments_hold_differently_much() -> None:
    buffer = filled(9, [2])
    buffer.add(experience([2], 3, [1]), torch.tensor([1]))
    with pytest.raises(ConfigError, match=r"hold \[3, 6, 3\] time steps"):
        buffer.gather_all()
    with pytest.raises(ConfigError, match=r"hold \[0, 0, 0\] time steps"):
        filled(9, []).gather_all()


def test_recent_data_make_up_their_part_of_a_batch() -> None:
    buffer = filled(40, [31], num_envs=4, recent_data_steps=4, recent_data_ratio=0.5)
    batch = buffer.sample(64, 1).batch_info
    recent = list(zip(batch.env_ids[:32].tolist(), batch.positions[:32].tolist(), strict=True))
    assert sorted(recent) == sorted((env, position) for env in range(4) for position in range(28, 32) for _ in range(2))
    assert len(set(batch.positions[32:].tolist())) > 12
    assert batch.positions[32:].min() < 4


def test_recent_data_and_priorities_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"recent_data_ratio = 0\.5 with TrainerConfig\.priority_replay = True"):
        filled(8, [], prioritized=True, recent_data_ratio=0.5)


@pytest.mark.parametrize("prioritized", [False, True])
def test_the_earliest_frames_start_no_sequence(prioritized: bool) -> None:
    buffer = filled(6, [1], prioritized=prioritized, num_earliest_frames_ignored=2)
    assert not buffer.has_sequences(1)
    with pytest.raises(ConfigError, match=r"no sequence of 1 time steps: the fullest environment has 2, .*oldest 2"):
        buffer.sample(1, 1)
    buffer.add(experience(1, 3))
    assert set(buffer.sample(60, 1).batch_info.positions.tolist()) == {2, 3, 4}
    assert times(buffer.gather_all())[0].tolist() == [2, 2, 2]
    buffer.add(experience(4, 3))
    buffer.add(experience(7, 3))
    assert set(buffer.sample(60, 1).batch_info.positions.tolist()) == {7, 8, 9, 10}
    assert times(buffer.gather_all())[0].tolist() == [7, 7, 7]


def test_clear_keeps_only_the_newest_time_step() -> None:
    buffer = filled(10, [4])
    assert buffer.has_sequences(2)
    buffer.clear()
    assert buffer.num_transitions == 0
    assert not buffer.has_sequences(2)
    buffer.add(experience(4, 2))
    envs, starts = buffer.all_sequences(2)
    assert sorted(buffer.get(envs, starts, 2).action.remainder(1000).unique().tolist()) == [4, 5]


def test_an_unroll_longer_than_the_buffer_is_refused_with_the_length_to_use() -> None:
    with pytest.raises(ConfigError, match=r"replay_buffer_length = 4 cannot hold one unroll of 4 steps.*use 5 or more"):
        filled(4, [4])


@pytest.mark.parametrize("prioritized", [False, True])
def test_drawing_from_an_empty_buffer_says_so(prioritized: bool) -> None:
    with pytest.raises(ConfigError, match=r"no sequence of 2 time steps.*initial_collect_steps"):
        filled(4, [], prioritized=prioritized).sample(1, 2)


def steps_of(block: Experience) -> list[tuple[TimeStep, Nest, Nest, Nest, TimeStep]]:
    """What `add_step` takes, one for every action."""
    time_steps = [nest.index(block.time_step, row) for row in range(block.length + 1)]
    rest = [nest.index((block.action, block.rollout_info, block.state), row) for row in range(block.length)]
    return [(time_steps[row], *rest[row], time_steps[row + 1]) for row in range(block.length)]


@pytest.mark.parametrize("largest_packed", [0, 2**18])
def test_single_steps_are_stored_as_blocks_are(largest_packed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "_LARGEST_PACKED", largest_packed)
    in_steps, in_blocks = filled(7, [1]), filled(7, [1])
    for step in steps_of(experience(1, 10)):
        in_steps.add_step(*step)
    for start in range(1, 11):
        in_blocks.add(experience(start, 1))
    one, other = in_steps.sample(500, 3), in_blocks.sample(500, 3)
    assert times(one).max() == 11
    for left, right in zip(nest.leaves(one), nest.leaves(other), strict=True):
        assert torch.equal(left, right)


def test_a_time_step_that_was_changed_since_it_was_stored_is_stored_anew() -> None:
    buffer = filled(7, [1])
    first, second = steps_of(experience(1, 2))
    buffer.add_step(*first)
    broken_off = replace(second[0], step_type=torch.full_like(second[0].step_type, StepType.LAST))
    buffer.add_step(broken_off, *second[1:])
    kinds = buffer.get(torch.arange(ENVS), torch.ones(ENVS, dtype=torch.int64), 3).time_step.step_type
    assert kinds[:, 0].tolist() == [StepType.MID, StepType.LAST, StepType.MID]


def test_stored_tensors_have_no_graph() -> None:
    data = experience(0, 2)
    data.time_step.reward.requires_grad_()
    buffer = ReplayBuffer(ENVS, 8, torch.Generator().manual_seed(0))
    buffer.add(data)
    assert not buffer.sample(2, 2).time_step.reward.requires_grad


def test_a_sampled_batch_is_not_touched_by_later_adds() -> None:
    buffer = filled(4, [3])
    batch = buffer.sample(8, 2)
    before = times(batch).clone()
    buffer.add(experience(3, 3))
    assert torch.equal(times(batch), before)


@pytest.mark.parametrize(("lengths", "longest"), [([], 0), ([1], 2), ([2, 1], 4), ([3, 3, 3], 7)])
def test_it_says_which_sequences_it_can_give(lengths: list[int], longest: int) -> None:
    buffer = filled(7, lengths)
    assert [length for length in range(2, 10) if buffer.has_sequences(length)] == list(range(2, longest + 1))


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_batch_that_is_not_needed_any_more_makes_room_for_the_next(prioritized: bool) -> None:
    one, other = (filled(9, [5], prioritized=prioritized) for _ in range(2))
    batches = [one.sample(6, 3, 0.5, reuse=True)]
    for start, size in ((5, 6), (7, 4), (9, 6)):  # another size has other memory
        expected = other.sample(6, 3, 0.5)
        assert all(map(torch.equal, nest.leaves(batches[-1]), nest.leaves(expected)))
        assert describe(batches[-1]) == describe(expected)
        for buffer in (one, other):
            buffer.sample(size, 3, reuse=True)
            buffer.add(experience(start, 2))
        batches.append(one.sample(6, 3, 0.5, reuse=True))
    assert all(batch is batches[0] for batch in batches)
    assert one.sample(6, 3, 0.5) is not batches[0]


def test_seeds_draw_differently() -> None:
    drawn = [filled(1000, [900], seed=seed).sample(64, 2).batch_info.positions.tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def updated(buffer: ReplayBuffer, priorities: list[float], alpha: float = 1.0, eps: float = 0.0) -> None:
    count = torch.arange(len(priorities))
    buffer.update_priorities(BatchInfo(torch.zeros_like(count), count), torch.tensor(priorities), alpha, eps)


def test_priorities_and_weights_are_those_of_the_formula() -> None:
    buffer = filled(8, [2], num_envs=1, prioritized=True)
    assert torch.equal(buffer.sample(10, 2, beta=0.4).batch_info.importance_weights, torch.ones(10))
    updated(buffer, [3.0, 0.0], alpha=0.5, eps=1.0)  # stored: 2 and 1
    batch = buffer.sample(300, 2, beta=0.4).batch_info
    assert torch.bincount(batch.positions).tolist() == [200, 100]
    expected = torch.tensor([2 / 1.5, 1 / 1.5]).pow(-0.4)[batch.positions]
    torch.testing.assert_close(batch.importance_weights, expected)
    normalized = buffer.sample(300, 2, beta=0.4, normalize_by_max=True).batch_info
    torch.testing.assert_close(normalized.importance_weights, torch.tensor([0.5**0.4, 1.0])[normalized.positions])
    assert buffer.sample(4, 2).batch_info.importance_weights == ()


def test_weights_of_beta_one_make_the_mean_unbiased() -> None:
    buffer = filled(500, [400], num_envs=1, prioritized=True)
    buffer.sample(1, 2)
    updated(buffer, (torch.rand(400, generator=torch.Generator().manual_seed(0)) + 0.1).tolist())
    batch = buffer.sample(100_000, 2, beta=1.0)
    mean = (batch.time_step.reward[0] * batch.batch_info.importance_weights).mean()
    assert float(mean) == pytest.approx(199.5, rel=0.002)


def test_priorities_without_prioritized_replay_are_refused() -> None:
    with pytest.raises(ConfigError, match="no priorities"):
        updated(filled(8, [2]), [1.0])


def test_bounds_of_episodes() -> None:
    kinds = [[StepType.FIRST] * ENVS, [StepType.LAST, 1, 1], [StepType.FIRST, 1, StepType.LAST], [1, 1, 0], [1, 1, 1]]
    buffer = ReplayBuffer(ENVS, 4, torch.Generator())
    buffer.add(experience(0, 3, step_type=torch.tensor(kinds[:4], dtype=torch.int32)))
    buffer.add(experience(3, 1, step_type=torch.tensor(kinds[3:], dtype=torch.int32)))
    envs = torch.tensor([0, 0, 1, 2, 2])
    positions = torch.tensor([1, 3, 2, 1, 4])
    assert buffer.episode_begin(envs, positions).tolist() == [1, 2, 1, 1, 3]  # 1: what was before is overwritten
    assert buffer.episode_end(envs, positions).tolist() == [1, 4, 4, 2, 4]
    frames = buffer.get_field("observation.name", envs[:, None], positions[:, None] - torch.arange(2))
    assert frames[1].tolist() == [3, 2]


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_loaded_buffer_goes_on_as_the_saved_one(prioritized: bool) -> None:
    saved = filled(9, [6, 7], prioritized=prioritized)
    if prioritized:
        saved.update_priorities(saved.sample(16, 3).batch_info, torch.rand(16), 0.7, 1e-6)
    loaded = ReplayBuffer(ENVS, 9, torch.Generator(), prioritized=prioritized)
    loaded.load_state_dict(saved.state_dict())
    for step in range(3):
        batches = [buffer.sample(32, 3, beta=0.5) for buffer in (saved, loaded)]
        for name in ("env_ids", "positions", "importance_weights"):
            left, right = (getattr(batch.batch_info, name) for batch in batches)
            assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
        assert torch.equal(times(batches[0]), times(batches[1]))
        for buffer in (saved, loaded):
            buffer.add(experience(13 + step, 1))
            if prioritized:
                buffer.update_priorities(batches[0].batch_info, torch.arange(32.0), 0.7, 1e-6)
    ends = [buffer.episode_end(torch.tensor([0]), torch.tensor([12])) for buffer in (saved, loaded)]
    assert torch.equal(*ends)


@pytest.mark.parametrize(("max_length", "oldest"), [(20, 5), (6, 8)])
def test_a_buffer_of_another_length_takes_the_newest_in_order(max_length: int, oldest: int) -> None:
    saved = filled(9, [6, 7])
    loaded = ReplayBuffer(ENVS, max_length, torch.Generator())
    loaded.load_state_dict(saved.state_dict())
    assert times(loaded.gather_all())[:, 0].tolist() == list(range(oldest, 14))


def test_what_is_saved_holds_only_tensors_and_plain_values(tmp_path: object) -> None:
    torch.save(filled(9, [3], prioritized=True).state_dict(), f"{tmp_path}/replay.pt")
    state = torch.load(f"{tmp_path}/replay.pt", weights_only=True)
    assert state["rows"]["leaves"]["0.reward"].shape == (4 * ENVS,)


def test_an_empty_buffer_can_be_saved_and_loaded() -> None:
    loaded = filled(9, [3])
    loaded.load_state_dict(filled(9, []).state_dict())
    assert loaded.num_transitions == 0
    assert not loaded.has_sequences(1)


def test_the_data_of_too_many_environments_are_refused() -> None:
    with pytest.raises(CheckpointError, match=r"of 3 environments, this run has 2.*num_parallel_environments = 3"):
        filled(3, [], num_envs=2).load_state_dict(filled(9, [3]).state_dict())


def test_checkpoints_carry_small_buffers_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> list[bool]:
        return [filled(100, [30], enable_checkpoint=each).belongs_in_checkpoint for each in (None, True, False)]

    assert answers() == [True, True, False]
    row = filled(100, [30]).nbytes // (100 * ENVS)
    monkeypatch.setattr("alfish.replay.replay_buffer._LARGEST_IN_CHECKPOINT", 31 * ENVS * row)
    assert answers() == [True, True, False]
    monkeypatch.setattr("alfish.replay.replay_buffer._LARGEST_IN_CHECKPOINT", 31 * ENVS * row - 1)
    assert answers() == [False, True, False]


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_a_hundred_thousand_frames_fit_into_three_quarters_of_a_gigabyte_taken_as_they_come() -> None:
    scalar, integer = TensorSpec(()), TensorSpec((), torch.int64)
    frame = TensorSpec((84, 84), torch.uint8)
    step = TimeStep(TensorSpec((), torch.int32), scalar, scalar, frame, integer, integer)
    buffer, before = ReplayBuffer(8, 12_500, torch.Generator(), prioritized=True), resident()
    buffer.allocate(Experience(step, integer))
    assert 0.7e9 < buffer.nbytes < 0.75e9
    assert resident() - before < 0.05e9


def least_time_to_step(rows: int, prioritized: bool) -> float:
    """Seconds of an add, a draw and an update, at best."""
    buffer = filled(rows // 8, [rows // 8 - 1, 20], num_envs=8, prioritized=prioritized)
    data, best = experience(0, 1, range(8)), np.inf
    for _ in range(300):
        start = perf_counter()
        buffer.add(data)
        batch = buffer.sample(64, 2, beta=0.4)
        if prioritized:
            buffer.update_priorities(batch.batch_info, batch.batch_info.importance_weights, 0.6, 1e-6)
        best = min(best, perf_counter() - start)
    return best


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_step_takes_no_longer_when_much_is_stored(prioritized: bool) -> None:
    assert least_time_to_step(400_000, prioritized) < 1.5 * least_time_to_step(10_000, prioritized)
