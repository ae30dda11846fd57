"""What is learned from, how often, in which portions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from alfish.errors import NumericFault
from alfish.training.trainer import Trainer
from alfish.types import StepType
from tests.options.running import A2C, DQN, ENDLESS, PPO, make, refusal, train, weights

ONE_ENV = "create_environment.num_parallel_environments = 1\n"
# The observation tells the step: 4, 3, 2, 1, 0.
COUNTDOWN = 'create_environment.env_name = "alfish/ValueUnittest-v0"\n'
INFINITE = f"{ENDLESS}ConstantRewardProbe.reward = 1e30\n"


class Batches:
    """The mini batches of a run, as the loss gets them."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, trainer: Trainer) -> None:
        algorithm = trainer.algorithm
        method = "train_steps" if algorithm.on_policy else "compute_loss"
        original = getattr(algorithm, method)

        def watched(first: Any, *others: Any) -> Any:
            self.all.append(first)
            return original(first, *others)

        setattr(algorithm, method, watched)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """`[T, B]`: time steps and sequences of every mini batch."""
        return [tuple(getattr(batch, "time_step", batch).step_type.shape) for batch in self.all]

    def starts(self, index: int) -> list[tuple[int, int]]:
        """Environment and position of every sequence of a sampled mini batch."""
        info = self.all[index].batch_info
        return list(zip(info.env_ids.tolist(), info.positions.tolist(), strict=True))


def test_initial_collect_steps_is_the_total_over_environments() -> None:
    run = train(DQN, ENDLESS, num_iterations=5, initial_collect_steps=50)
    assert run.per_iteration("updates") == [0, 0, 1, 1, 1]


def test_initial_collect_steps_beyond_the_buffer_is_refused() -> None:
    message = refusal(DQN, initial_collect_steps=101, replay_buffer_length=25)
    assert "initial_collect_steps = 101 is more than the buffer can hold: replay_buffer_length = 25 times 4" in message


def test_initial_collect_steps_is_refused_on_policy() -> None:
    assert "TrainerConfig.initial_collect_steps: PPOAlgorithm is on-policy" in refusal(PPO, initial_collect_steps=10)


@pytest.mark.parametrize("is_random", [True, False])
def test_random_initial_collect(is_random: bool) -> None:
    # Always the same observation: the greedy action never changes before the first update.
    greedy = f"{ENDLESS}DqnAlgorithm.rollout_epsilon_greedy = 0.0\n"
    run = train(
        DQN, greedy, num_iterations=2, initial_collect_steps=40, random_initial_collect=is_random, unroll_length=10
    )
    stored = run.trainer.algorithm.replay.gather_all()
    assert (len(stored.action[:10].unique()) == 2) == is_random
    assert len(stored.action[10:20].unique()) == 1, "afterwards the policy acts"
    assert run.per_iteration("env_steps") == [40, 40], "they count"
    assert (stored.time_step.step_type[1:] == StepType.MID).all(), "and the episodes go on"


def test_random_initial_collect_needs_a_length() -> None:
    assert "random actions for how long?" in refusal(DQN, random_initial_collect=True)


def test_num_updates_per_train_iter_is_optimizer_steps_each_on_a_fresh_draw() -> None:
    batches = Batches()
    run = train(DQN, ENDLESS, prepare=batches, num_updates_per_train_iter=3)
    assert run.per_iteration("updates") == [3, 3, 3, 3]
    assert len({tuple(batches.starts(index)) for index in range(12)}) == 12


def test_num_updates_per_train_iter_is_passes_over_the_whole_buffer() -> None:
    options = {"num_updates_per_train_iter": 4, "mini_batch_length": 1, "mini_batch_size": 64}
    run = train(PPO, num_iterations=1, unroll_length=512, **options)
    assert run.result.updates == 4 * 2048 / 64


def test_num_updates_per_train_iter_is_refused_where_an_unroll_gives_one_update() -> None:
    assert "num_updates_per_train_iter: has no effect on ActorCritic" in refusal(A2C, num_updates_per_train_iter=2)


def test_num_updates_per_env_step_carries_fractions() -> None:
    ratio = {"num_updates_per_env_step": 0.125, "num_updates_per_train_iter": 4, "unroll_length": 1}
    run = train(DQN, ENDLESS, num_iterations=100, **ratio)  # 4 steps, half an update per iteration
    assert run.per_iteration("updates") == [0, 1] * 50


def test_num_updates_per_env_step_keeps_its_fraction_in_the_checkpoint() -> None:
    ratio = {"num_updates_per_env_step": 0.125, "num_updates_per_train_iter": 4, "unroll_length": 1}
    train(DQN, ENDLESS, num_iterations=1, **ratio)
    assert train(DQN, ENDLESS, num_iterations=2, **ratio).per_iteration("updates") == [1]


def test_num_updates_per_env_step_excludes_num_updates_per_train_iter() -> None:
    assert "say the same thing twice" in refusal(DQN, num_updates_per_env_step=0.5, num_updates_per_train_iter=2)


@pytest.mark.parametrize(("length", "expected"), [(3, 3), (4, 4), (None, 2)])
def test_mini_batch_length_of_sampled_sequences(length: int | None, expected: int) -> None:
    batches = Batches()
    train(DQN, COUNTDOWN, prepare=batches, mini_batch_length=length)
    assert set(batches.shapes) == {(expected, 8)}


def test_mini_batch_length_is_contiguous_in_time() -> None:
    batches = Batches()
    train(DQN, COUNTDOWN, prepare=batches, mini_batch_length=4, mini_batch_size=32)
    for batch in batches.all:
        observation, step_type = batch.time_step.observation.squeeze(-1), batch.time_step.step_type
        goes_on = step_type[1:] != StepType.FIRST
        assert (observation[1:][goes_on] == observation[:-1][goes_on] - 1).all()
        assert (observation[1:][~goes_on] == 5).all(), "the next episode, where one ended"


@pytest.mark.parametrize(("length", "shapes"), [(5, {(5, 4)}), (1, {(1, 4)}), (None, {(5, 4)})])
def test_mini_batch_length_cuts_an_unroll(length: int | None, shapes: set[tuple[int, int]]) -> None:
    batches = Batches()
    run = train(PPO, prepare=batches, num_iterations=1, mini_batch_length=length)
    assert set(batches.shapes) == shapes
    assert run.result.updates == 5 // next(iter(shapes))[0]
    assert "does not divide unroll_length = 5" in refusal(PPO, root_dir="no", mini_batch_length=2)


@pytest.mark.parametrize(("size", "expected"), [(6, 6), (None, 4)])
def test_mini_batch_size_of_sampled_sequences(size: int | None, expected: int) -> None:
    batches = Batches()
    train(DQN, prepare=batches, mini_batch_size=size)
    assert set(batches.shapes) == {(2, expected)}


def test_mini_batch_size_whole_is_one_full_batch() -> None:
    batches = Batches()
    run = train(PPO, prepare=batches, num_iterations=1, mini_batch_length=1, mini_batch_size="whole")
    assert batches.shapes == [(1, 20)]
    assert run.result.updates == 1


def test_whole_replay_buffer_training_uses_every_stored_step_once_per_pass() -> None:
    batches = Batches()
    options = {"whole_replay_buffer_training": True, "mini_batch_length": 1, "num_updates_per_train_iter": 2}
    run = train(DQN, ENDLESS, prepare=batches, num_iterations=2, **options)
    used = Counter(start for index in range(len(batches.all)) for start in batches.starts(index))
    assert used == {(env, step): 4 if step < 5 else 2 for env in range(4) for step in range(10)}
    assert {size for _, size in batches.shapes} <= {8, 10}, "mini_batch_size, and what is left over is spread"
    assert run.result.updates == 2 * (20 // 8) + 2 * (40 // 8)
    assert batches.starts(0) != batches.starts(2), "shuffled"


def test_whole_replay_buffer_training_false_samples() -> None:
    batches = Batches()
    run = train(DQN, ENDLESS, prepare=batches, num_iterations=2, whole_replay_buffer_training=False)
    assert run.result.updates == 2
    assert "whole_replay_buffer_training" in refusal(PPO, root_dir="no", whole_replay_buffer_training=False)


@pytest.mark.parametrize("clears", [True, False])
def test_clear_replay_buffer(clears: bool) -> None:
    batches = Batches()
    stored: list[int] = []
    options = {"whole_replay_buffer_training": True, "mini_batch_length": 1, "mini_batch_size": "whole"}
    run = train(
        DQN,
        ENDLESS,
        prepare=batches,
        each=lambda trainer: stored.append(trainer.algorithm.replay.num_transitions),
        clear_replay_buffer=clears,
        **options,
    )
    assert run.per_iteration("updates") == [1, 1, 1, 1], "the first iteration trains"
    assert stored == ([0, 0, 0, 0] if clears else [20, 40, 60, 80])
    used = Counter(start for index in range(4) for start in batches.starts(index))
    every_action = {(env, step) for env in range(4) for step in range(20)}
    assert used.keys() == every_action
    assert (set(used.values()) == {1}) == clears, "every action is trained on exactly num_updates times"


def test_nan_policy_stop() -> None:
    untrained = weights(make(DQN, INFINITE, root_dir="untrained"))
    kept: list[torch.Tensor] = []
    with pytest.raises(NumericFault, match="the loss is inf"):
        train(DQN, INFINITE, nan_policy="stop", prepare=lambda trainer: kept.append(weights(trainer)))
    assert torch.equal(kept[0], untrained)
    assert Path("run/nan_dump.pt").exists()
    assert not Path("run/checkpoints").exists()


def test_nan_policy_skip() -> None:
    untrained = weights(make(DQN, INFINITE, root_dir="untrained"))
    run = train(DQN, INFINITE, nan_policy="skip", summary_interval=1)
    assert (run.result.iterations, run.result.updates) == (4, 0)
    assert torch.equal(run.weights, untrained)
    assert run.trainer.algorithm.loop.updater.skipped == 4
