"""Learning from recorded data, alone and beside own experience."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from alfish.training.checkpoint import Checkpoint
from alfish.training.recording import Amount, collect_dataset
from tests.options.running import DQN, EVALUATE, PPO, load, refusal, train
from tests.training.test_exact_resume import assert_same, state_of

BC = f"""{PPO}
TrainerConfig.algorithm_ctor = @BcAlgorithm
TrainerConfig.unroll_length = 8  # the default: nobody acts
TrainerConfig.whole_replay_buffer_training = False
BcAlgorithm.optimizer = @Adam()
"""
NEVER = 10**9


@pytest.fixture
def data() -> str:
    """20 episodes of 5 steps by chance: 100 steps, and 120 time steps."""
    Path("chance.gin").write_text(DQN)
    collect_dataset("chance.gin", Path("data"), Amount(num_episodes=20), random=1.0)
    return "data"


def sizes(trainer: Any) -> list[tuple[int, int | None]]:
    """From now on: the sizes of the recorded and of the own mini batch of every update."""
    noted: list[tuple[int, int | None]] = []
    loop = trainer.algorithm.loop
    update = loop._update_with

    def note(offline: Any, online: Any) -> Any:
        noted.append((len(offline.action[0]), None if online is None else len(online.action[0])))
        return update(offline, online)

    loop._update_with = note
    return noted


def stored(run: Any) -> torch.Tensor:
    """The recorded observations, in the order that they are replayed in."""
    offline = run.trainer.algorithm.loop.offline
    count = int(offline.newest[0] - offline.oldest[0]) + 1
    return offline.get(torch.tensor([0]), offline.oldest[[0]], count).time_step.observation.flatten()


def test_offline_buffer_dir_dataset_folder(data: str) -> None:
    run = train(DQN, offline_buffer_dir=data, rl_train_after_update_steps=NEVER, num_iterations=6)
    assert (run.result.env_steps, run.result.updates, run.result.iterations) == (0, 6, 6)
    tape = Checkpoint(Path(data), 0).load("steps")["leaves"]
    assert torch.equal(stored(run), tape[3].flatten())
    assert "offline data: data (dataset), 100 steps of 20 episodes" in run.console
    assert "nobody acts in this run" in run.console


def test_offline_buffer_dir_run_folder_in_the_order_of_time_after_the_ring_wrapped() -> None:
    first = train(DQN, root_dir="first", replay_buffer_length=11, num_iterations=7)  # 35 steps into 11 rows
    replay = first.trainer.algorithm.replay
    assert replay is not None
    kept = replay.gather_all().time_step
    run = train(DQN, offline_buffer_dir="first", rl_train_after_update_steps=NEVER)
    expected = []
    for env in range(4):  # an end without what led to it, and a beginning without what follows, teach nothing
        step_type, shown = kept.step_type[:, env].tolist(), kept.observation[:, env, 0].tolist()
        expected += shown[step_type[0] == 2 : len(shown) - (step_type[-1] == 0)]
    assert stored(run).tolist() == expected
    assert "offline data: first (replay of iteration 7)" in run.console


def test_offline_buffer_dir_checkpoint_folder() -> None:
    train(DQN, root_dir="first")
    run = train(DQN, offline_buffer_dir="first/checkpoints/000004", rl_train_after_update_steps=NEVER)
    assert "offline data: first/checkpoints/000004 (replay of a checkpoint)" in run.console
    assert run.result.env_steps == 0


def test_offline_buffer_dir_several_sources_of_different_numbers_of_environments(data: str) -> None:
    train(DQN, "create_environment.num_parallel_environments = 3", root_dir="first")
    alone = [train(DQN, root_dir=each, offline_buffer_dir=source) for each, source in (("a", data), ("b", "first"))]
    run = train(DQN, root_dir="both", offline_buffer_dir=[data, "first"])
    assert torch.equal(stored(run), torch.cat([stored(each) for each in alone]))


def test_offline_buffer_dir_that_is_missing_or_damaged_or_of_something_else_is_refused(data: str) -> None:
    assert "nowhere does not exist. It takes a run folder" in refusal(DQN, offline_buffer_dir="nowhere")
    other = refusal(DQN, 'create_environment.env_name = "CartPole-v1"', offline_buffer_dir=data)
    assert "data, recorded in alfish/PolicyUnittest-v0, does not fit CartPole-v1" in other
    assert "observation: float32 (1,) in the data, float32 (4,) in the environment" in other
    steps = Path(data) / "steps.pt"
    steps.write_bytes(steps.read_bytes()[:-7])
    assert "steps.pt is damaged: it has" in refusal(DQN, offline_buffer_dir=data)
    train(PPO, root_dir="ppo")
    assert "has 1 checkpoint(s), none with its replay" in refusal(DQN, offline_buffer_dir="ppo")


def test_offline_buffer_dir_needs_an_off_policy_algorithm(data: str) -> None:
    assert "PPOAlgorithm is on-policy" in refusal(PPO, offline_buffer_dir=data)
    assert "BcAlgorithm learns from recorded data" in refusal(BC)


def test_offline_buffer_dir_evaluation_and_evaluate_need_no_step_of_training(data: str) -> None:
    run = train(BC, EVALUATE, offline_buffer_dir=data, num_iterations=2)
    assert run.result.evaluation is not None
    assert (run.result.env_steps, run.result.episodes, run.result.updates) == (0, 0, 2)
    assert "evaluation at iteration 2: mean return" in run.console


def test_offline_buffer_length_keeps_the_newest(data: str) -> None:
    whole = train(DQN, root_dir="whole", offline_buffer_dir=data)
    run = train(DQN, root_dir="capped", offline_buffer_dir=[data, data], offline_buffer_length=30)
    newest = stored(whole)[-30:]
    assert torch.equal(stored(run), torch.cat((newest, newest)))
    assert "offline_buffer_dir" in refusal(DQN, offline_buffer_length=30)


def test_rl_train_after_update_steps_nobody_acts_before(data: str) -> None:
    options = {"offline_buffer_dir": data, "num_updates_per_train_iter": 3}
    noted: list[Any] = []
    run = train(
        DQN,
        prepare=lambda trainer: noted.append(sizes(trainer)),
        **options,
        rl_train_after_update_steps=7,
        num_iterations=6,
    )
    assert run.per_iteration("env_steps") == [0, 0, 0, 20, 16, 16]
    assert noted[0] == [(8, None)] * 9 + [(8, 8)] * 9
    assert "nobody acts before 7 updates are made" in run.console


def test_rl_train_after_update_steps_without_recorded_data_is_refused() -> None:
    message = refusal(DQN, rl_train_after_update_steps=5)
    assert "TrainerConfig.rl_train_after_update_steps" in message
    assert "set offline_buffer_dir" in message


def test_rl_train_after_update_steps_above_the_budget_counts_epochs_in_updates(data: str) -> None:
    options = {"offline_buffer_dir": data, "rl_train_after_update_steps": NEVER, "num_updates_per_train_iter": 4}
    load(DQN)
    run = train(DQN, "TrainerConfig.num_iterations = 0", **options, num_epochs=3, num_steps_per_epoch=10)
    assert (run.result.iterations, run.result.updates, run.result.env_steps) == (9, 36, 0)
    assert "3 epochs of 3 iterations with 4 updates each" in run.console
    whole = {"whole_replay_buffer_training": True, "mini_batch_size": 40, "num_updates_per_train_iter": 1}
    run = train(
        DQN,
        "TrainerConfig.num_iterations = 0",
        root_dir="whole",
        **{**options, **whole},
        num_epochs=2,
        num_steps_per_epoch=4,
    )
    assert (run.result.iterations, run.result.updates) == (4, 8)  # 119 sequences in 2 batches a pass


@pytest.mark.parametrize("every", [1, 3])
def test_rl_train_every_update_steps(every: int, data: str) -> None:
    noted: list[Any] = []
    train(
        DQN,
        prepare=lambda trainer: noted.append(sizes(trainer)),
        offline_buffer_dir=data,
        rl_train_every_update_steps=every,
        num_updates_per_train_iter=4,
    )
    assert [own is not None for _, own in noted[0]] == [index % every == 0 for index in range(16)]


@pytest.mark.parametrize(
    "options",
    [
        {"whole_replay_buffer_training": True, "clear_replay_buffer": True},
        {"whole_replay_buffer_training": True, "mini_batch_size": "whole"},
        {"priority_replay": True},
        {"mini_batch_size": 1, "mini_batch_length": 4, "summarize_grads_and_vars": True},
    ],
    ids=["pass", "whole", "priorities", "long"],
)
def test_rl_train_every_update_steps_with_every_replay_mode(options: dict[str, Any], data: str) -> None:
    noted: list[Any] = []
    run = train(
        DQN,
        prepare=lambda trainer: noted.append(sizes(trainer)),
        offline_buffer_dir=data,
        rl_train_every_update_steps=2,
        summary_interval=1,
        **options,
    )
    own = [each is not None for _, each in noted[0]]
    assert own == [index % 2 == 0 for index in range(len(own))]
    assert {"Loss/offline/td_error", "Loss/online/td_error"} <= run.tags()
    if "summarize_grads_and_vars" in options:
        assert any(tag.startswith("Gradients/") for tag in run.tags())


def test_rl_train_every_update_steps_needs_recorded_data() -> None:
    assert "set offline_buffer_dir" in refusal(DQN, rl_train_every_update_steps=2)


@pytest.mark.parametrize("after", [6, NEVER])
@pytest.mark.parametrize("mode", [{"priority_replay": True}, {"whole_replay_buffer_training": True}])
def test_offline_and_hybrid_runs_go_on_to_the_bit(after: int, mode: dict[str, Any], data: str) -> None:
    options = {
        "offline_buffer_dir": data,
        "rl_train_after_update_steps": after,
        "rl_train_every_update_steps": 2,
        **mode,
    }
    whole = train(DQN, root_dir="whole", **options, num_iterations=12)
    for iterations in (3, 8, 12):
        stopped = train(DQN, root_dir="stopped", **options, num_iterations=iterations)
    assert_same(state_of(whole.trainer), state_of(stopped.trainer))
    assert (whole.result.env_steps > 0) == (after == 6)
