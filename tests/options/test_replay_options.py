"""What is stored, and how it is drawn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from alfish.training.trainer import Trainer
from alfish.types import Experience, LossInfo, replace
from tests.options.running import DQN, ENDLESS, PPO, refusal, train

ONE_ENV = f"{ENDLESS}create_environment.num_parallel_environments = 1\n"
# Five transitions are stored, then it only learns.
FIVE = {"unroll_length": 5, "num_env_steps": 5, "num_iterations": 12, "mini_batch_size": 80}
PRIORITIES = {**FIVE, "priority_replay": True}
EQUAL = Counter({0: 16, 1: 16, 2: 16, 3: 16, 4: 16})
LIKE_1_2_3_4_6 = Counter({0: 5, 1: 10, 2: 15, 3: 20, 4: 30})


class Draws:
    """Gives transition i of a run the priority `given[i]`, and remembers what is drawn with which weight."""

    def __init__(self, *given: float) -> None:
        self._given = torch.tensor(given)
        self.drawn: list[Counter[int]] = []
        self.weights: list[dict[int, float]] = []

    def __call__(self, trainer: Trainer) -> None:
        compute_loss = trainer.algorithm.compute_loss

        def watched(batch: Experience) -> LossInfo:
            info = batch.batch_info
            self.drawn.append(Counter(info.positions.tolist()))
            if info.importance_weights != ():
                self.weights.append(dict(zip(info.positions.tolist(), info.importance_weights.tolist(), strict=True)))
            return replace(compute_loss(batch), priority=self._given[info.positions])

        trainer.algorithm.compute_loss = watched


def draws(*given: float, text: str = "", **options: Any) -> Draws:
    made = Draws(*given)
    train(DQN, ONE_ENV + text, prepare=made, **{**PRIORITIES, **options})
    return made


def expected_weights(stored: list[float], beta: float) -> dict[int, float]:
    mean = sum(stored) / len(stored)
    return {position: (priority / mean) ** -beta for position, priority in enumerate(stored)}


def test_replay_buffer_length_is_per_environment() -> None:
    run = train(DQN, ENDLESS, replay_buffer_length=12)
    replay = run.trainer.algorithm.replay
    assert (replay.newest - replay.oldest + 1).tolist() == [12] * 4
    assert replay.newest.tolist() == [20] * 4, "the oldest are gone"


def test_replay_buffer_length_tells_the_memory_at_the_start() -> None:
    run = train(DQN, replay_buffer_length=100_000)
    assert "replay: 100,000 steps x 4 environments = 400,000 steps, 16.0 MB" in run.console
    assert run.trainer.algorithm.replay.nbytes == 16e6, "and that is what it takes"


def test_replay_buffer_length_that_no_memory_holds_is_refused() -> None:
    message = refusal(DQN, replay_buffer_length=10**12)
    assert "TrainerConfig.replay_buffer_length = 1000000000000: 4 environments" in message
    assert "GB are available" in message


def test_replay_buffer_length_is_idle_on_policy_and_that_is_said() -> None:
    run = train(PPO, replay_buffer_length=10)
    assert "replay_buffer_length: no effect, since PPOAlgorithm is on-policy and has no replay" in run.console


def test_replay_buffer_length_below_a_sequence_is_refused() -> None:
    message = refusal(DQN, replay_buffer_length=3, mini_batch_length=4)
    assert "TrainerConfig.replay_buffer_length = 3 never holds a sequence of 4 time steps" in message


def test_priority_replay_draws_in_proportion() -> None:
    by_priority = draws(1.0, 2.0, 3.0, 4.0, 6.0, priority_replay_alpha=1.0).drawn
    assert by_priority[0] == EQUAL, "at first all are equal"
    assert by_priority[-1] == LIKE_1_2_3_4_6, "80 draws, stratified"


def test_priority_replay_false_draws_uniformly() -> None:
    uniform = draws(1.0, 2.0, 3.0, 4.0, 6.0, priority_replay=False)
    assert set(uniform.drawn[-1].values()) <= {15, 16, 17}
    assert uniform.weights == []


def test_priority_replay_gives_new_data_the_largest_priority_so_far() -> None:
    # After the first iteration the five old transitions have priority 2, the largest ever; new ones get that, too.
    grown = draws(*[2.0] * 5, *[1.0] * 100, priority_replay_alpha=1.0, num_env_steps=10, num_iterations=2)
    assert grown.drawn[1] == Counter(dict.fromkeys(range(10), 8))


def test_priority_replay_is_refused_where_there_are_no_priorities() -> None:
    assert "priority_replay" in refusal(PPO, priority_replay=True)
    message = refusal(DQN, priority_replay=True, whole_replay_buffer_training=True)
    assert "priorities matter for sampling: set whole_replay_buffer_training = False" in message


def test_priority_replay_alpha_is_the_exponent_of_priorities() -> None:
    found = draws(1.0, 4.0, 9.0, 16.0, 36.0, priority_replay_alpha=0.5)  # 1 2 3 4 6
    assert found.drawn[-1] == LIKE_1_2_3_4_6
    equal = draws(1.0, 4.0, 9.0, 16.0, 36.0, priority_replay_alpha=0.0, root_dir="equal")
    assert equal.drawn[-1] == EQUAL


def test_priority_replay_alpha_may_be_scheduled() -> None:
    schedule = """
        TrainerConfig.priority_replay_alpha = @StepScheduler()
        StepScheduler.progress_type = "iterations"
        StepScheduler.schedule = [(6, 0.0), (7, 1.0)]
    """
    found = draws(1.0, 2.0, 3.0, 4.0, 6.0, text=schedule).drawn
    assert found[5] == EQUAL
    assert found[-1] == LIKE_1_2_3_4_6


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_priority_replay_beta_is_the_exponent_of_weights(beta: float) -> None:
    given = [1.0, 2.0, 3.0, 4.0, 6.0]
    found = draws(*given, priority_replay_alpha=1.0, priority_replay_beta=beta).weights[-1]
    assert found == pytest.approx(expected_weights(given, beta), rel=1e-5)


def test_priority_replay_beta_may_be_scheduled() -> None:
    schedule = """
        TrainerConfig.priority_replay_beta = @StepScheduler()
        StepScheduler.progress_type = "iterations"
        StepScheduler.schedule = [(6, 0.0), (7, 1.0)]
    """
    given = [1.0, 2.0, 3.0, 4.0, 6.0]
    found = draws(*given, text=schedule, priority_replay_alpha=1.0).weights
    assert set(found[5].values()) == {1.0}
    assert found[-1] == pytest.approx(expected_weights(given, 1.0), rel=1e-5)


def test_priority_replay_beta_weighs_the_loss() -> None:
    losses = [
        train(
            DQN,
            ONE_ENV,
            prepare=Draws(1.0, 2.0, 3.0, 4.0, 6.0),
            root_dir=str(beta),
            summary_interval=1,
            priority_replay_beta=beta,
            **PRIORITIES,
        ).scalars("Loss/loss")[12]
        for beta in (0.0, 1.0)
    ]
    assert losses[0] != losses[1]


def test_priority_replay_eps_is_added_before_the_power() -> None:
    found = draws(0.0, 1.0, 2.0, 3.0, 5.0, priority_replay_alpha=1.0, priority_replay_eps=1.0, priority_replay_beta=1.0)
    assert found.drawn[-1] == LIKE_1_2_3_4_6
    assert found.weights[-1] == pytest.approx(expected_weights([1.0, 2.0, 3.0, 4.0, 6.0], 1.0), rel=1e-5)


def test_normalize_importance_weights_by_max() -> None:
    given = [1.0, 2.0, 3.0, 4.0, 6.0]
    options = {"priority_replay_alpha": 1.0, "priority_replay_beta": 1.0}
    found = draws(*given, normalize_importance_weights_by_max=True, **options).weights[-1]
    assert found == pytest.approx({position: 1.0 / priority for position, priority in enumerate(given)}, rel=1e-5)


@pytest.mark.parametrize(
    "option",
    ["priority_replay_alpha", "priority_replay_beta", "priority_replay_eps", "normalize_importance_weights_by_max"],
)
def test_priority_replay_off_makes_the_others_idle_and_that_is_said(option: str) -> None:
    run = train(DQN, **{option: True if option.startswith("normalize") else 0.5})
    assert f"TrainerConfig.{option}: no effect, since priority_replay is False" in run.console


@pytest.mark.parametrize(("choice", "is_saved"), [("True", True), ("False", False), ("None", True)])
def test_enable_checkpoint(choice: str, is_saved: bool) -> None:
    binding = f"ReplayBuffer.enable_checkpoint={choice}"
    train(DQN, ENDLESS, binding)
    assert Path("run/checkpoints/000004/replay.pt").exists() == is_saved
    resumed = train(DQN, ENDLESS, binding, num_iterations=5)
    stored = resumed.trainer.algorithm.replay.num_transitions
    assert stored == (100 if is_saved else 20)
    assert ("the checkpoint has no replay: it fills anew" in resumed.console) != is_saved


def test_enable_checkpoint_none_leaves_a_large_buffer_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alfish.replay.replay_buffer._LARGEST_IN_CHECKPOINT", 100)
    train(DQN, ENDLESS)
    assert not Path("run/checkpoints/000004/replay.pt").exists()
