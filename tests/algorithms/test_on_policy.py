"""The on-policy loop uses every action exactly as often as promised."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from alfish import nest
from alfish.algorithms.on_policy import Sequences, counts, cut, split_evenly
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.errors import ConfigError
from alfish.types import Experience, StepType, TimeStep
from tests.algorithms.runs import start_run


def numbered(length: int, batch: int, step_types: torch.Tensor | None = None) -> Experience:
    """Observation, info and state of environment b at time t are `10 * t + b`."""
    numbers = 10 * torch.arange(length + 1).unsqueeze(1) + torch.arange(batch)
    step = TimeStep(
        step_type=torch.ones_like(numbers) if step_types is None else step_types,
        reward=numbers.float(),
        discount=torch.ones(numbers.shape),
        observation=numbers,
        prev_action=numbers,
        env_id=torch.arange(batch).expand_as(numbers),
    )
    return Experience(time_step=step, action=numbers[:-1], rollout_info=numbers[:-1], state=(numbers[:-1],))


@pytest.mark.parametrize(
    ("total", "size", "sizes"),
    [(264, 32, [33] * 8), (10, 4, [5, 5]), (11, 4, [5, 6]), (3, 8, [3]), (2048, 64, [64] * 32)],
)
def test_no_small_remainder_is_left(total: int, size: int, sizes: list[int]) -> None:
    slices = list(split_evenly(total, size))
    assert [piece.stop - piece.start for piece in slices] == sizes
    assert [i for piece in slices for i in range(piece.start, piece.stop)] == list(range(total))


def test_cut_keeps_time_order_and_starts_from_the_stored_state() -> None:
    sequences = cut(numbered(4, 2), 2, use_state=True)
    assert sequences.time_step.observation.tolist() == [[0, 1, 20, 21], [10, 11, 30, 31]]
    assert sequences.rollout_info.tolist() == [[0, 1, 20, 21], [10, 11, 30, 31]]
    assert sequences.state[0].tolist() == [0, 1, 20, 21]
    assert cut(numbered(4, 2), 2, use_state=False).state == ()


def test_steps_at_the_end_of_an_episode_do_not_count() -> None:
    kinds = torch.tensor([[StepType.FIRST, StepType.MID, StepType.LAST]])
    assert counts(numbered(0, 3, kinds).time_step).tolist() == [[1, 1, 0]]


class Counting(PPOAlgorithm):
    """Counts how often each action is trained on."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: Counter[int] = Counter()
        self.batch_sizes: list[tuple[int, ...]] = []

    def train_steps(self, time_steps: TimeStep, state: Any, rollout_info: Any) -> Any:
        self.batch_sizes.append(tuple(time_steps.step_type.shape))
        for row in torch.cat([leaf.flatten(2) for leaf in nest.leaves(time_steps.observation)], -1).flatten(0, 1):
            self.seen[hash(tuple(row.tolist()))] += 1
        return super().train_steps(time_steps, state, rollout_info)


@pytest.mark.parametrize(
    ("options", "shapes"),
    [
        ({"mini_batch_length": 1, "mini_batch_size": 8}, [(1, 8)] * 4),
        ({"mini_batch_length": 4, "mini_batch_size": 2}, [(4, 2)] * 4),
        ({"mini_batch_length": None, "mini_batch_size": None}, [(8, 4)]),
        ({"mini_batch_length": 1, "mini_batch_size": "whole"}, [(1, 32)]),
        ({"mini_batch_length": 2, "mini_batch_size": 5}, [(2, 5), (2, 5), (2, 6)]),
    ],
)
def test_every_action_is_trained_on_exactly_num_updates_times(
    options: dict[str, Any], shapes: list[tuple[int, int]]
) -> None:
    algorithm = start_run(Counting, unroll_length=8, num_updates_per_train_iter=3, **options)
    algorithm.train_iter()
    assert len(algorithm.seen) == 32  # 8 steps of 4 environments, the first iteration included
    assert set(algorithm.seen.values()) == {3}
    assert algorithm.batch_sizes == shapes * 3
    assert algorithm.progress.updates == 3 * len(shapes)


def test_four_passes_over_2048_samples_in_batches_of_64_make_128_updates() -> None:
    algorithm = start_run(
        PPOAlgorithm,
        num_environments=8,
        unroll_length=256,
        num_updates_per_train_iter=4,
        mini_batch_length=1,
        mini_batch_size=64,
    )
    algorithm.train_iter()
    assert algorithm.progress.updates == 128


def test_passes_are_shuffled_anew() -> None:
    order: list[torch.Tensor] = []

    class Watching(PPOAlgorithm):
        def train_steps(self, time_steps: TimeStep, state: Any, rollout_info: Any) -> Any:
            order.append(time_steps.observation.clone())
            return super().train_steps(time_steps, state, rollout_info)

    algorithm = start_run(
        Watching, unroll_length=8, num_updates_per_train_iter=2, mini_batch_length=1, mini_batch_size="whole"
    )
    algorithm.train_iter()
    assert not torch.equal(order[0], order[1])


def test_the_updates_end_when_the_algorithm_wants_no_more() -> None:
    class Content(PPOAlgorithm):
        def wants_more_updates(self, loss_info: Any) -> bool:
            return bool(self.progress.updates < 3)

    algorithm = start_run(Content, unroll_length=8, mini_batch_length=1, mini_batch_size=8)
    algorithm.train_iter()
    assert algorithm.progress.updates == 3


def test_fractional_unrolls_are_carried_and_an_empty_one_trains_nothing() -> None:
    lengths: list[int] = []

    class Measuring(PPOAlgorithm):
        def after_train_iter(self, experience: Experience) -> None:
            lengths.append(experience.length)

    algorithm = start_run(Measuring, unroll_length=2.5)
    for _ in range(4):
        algorithm.train_iter()
    assert lengths == [2, 3, 2, 3]
    algorithm = start_run(Measuring, unroll_length=0.5, num_updates_per_train_iter=1)
    algorithm.train_iter()
    assert (algorithm.progress.iterations, algorithm.progress.updates, algorithm.progress.env_steps) == (1, 0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"whole_replay_buffer_training": False}, "is on-policy"),
        ({"clear_replay_buffer": False}, "is on-policy"),
        ({"initial_collect_steps": 8}, "has no replay to fill"),
        ({"unroll_with_grad": True}, "makes several updates per unroll"),
        ({"mini_batch_length": 3}, r"mini_batch_length = 3 does not divide unroll_length = 8"),
    ],
)
def test_options_that_would_be_ignored_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start_run(PPOAlgorithm, **options)


def test_sequences_are_records() -> None:
    sequences = cut(numbered(2, 2), 1, use_state=False)
    assert isinstance(nest.index(sequences, 0), Sequences)
