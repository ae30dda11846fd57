"""How long a run lasts."""

from __future__ import annotations

import torch

from tests.options.running import DQN, ENDLESS, PPO, make, refusal, train, weights

EPOCHS = {"num_iterations": 0, "num_epochs": 3, "num_steps_per_epoch": 40}
ONE_EVALUATION_EACH = {"evaluate": True, "async_eval": False, "num_eval_episodes": 1}


def test_num_iterations() -> None:
    run = train(PPO, num_iterations=3)
    assert len(run.history) == run.result.iterations == 3
    assert run.trainer.progress.fraction == 1.0


def test_num_iterations_counts_those_of_the_initial_collection() -> None:
    run = train(DQN, ENDLESS, num_iterations=4, initial_collect_steps=41)
    assert run.per_iteration("updates") == [0, 0, 1, 1]


def test_num_iterations_zero_leaves_it_to_num_env_steps() -> None:
    assert train(DQN, ENDLESS, num_iterations=0, num_env_steps=60).result.iterations == 3
    message = refusal(DQN, num_iterations=0)
    assert "TrainerConfig.num_iterations" in message
    assert "there is no budget" in message


def test_num_iterations_takes_an_integral_float_and_no_word() -> None:
    assert train(PPO, "", "TrainerConfig.num_iterations=2e0").result.iterations == 2
    assert "TrainerConfig.num_iterations" in refusal(PPO, "", "TrainerConfig.num_iterations='ten'")


def test_num_env_steps_is_the_total_over_environments() -> None:
    run = train(PPO, ENDLESS, num_iterations=0, num_env_steps=100)
    assert run.per_iteration("env_steps") == [20] * 5


def test_num_env_steps_does_not_count_the_steps_that_reset() -> None:
    # Episodes of 5 steps: of 6 calls, 5 are steps of an environment.
    run = train(PPO, num_iterations=0, num_env_steps=60, unroll_length=6)
    assert run.per_iteration("env_steps") == [20, 20, 20]


def test_num_env_steps_with_num_iterations_goes_on_from_replay() -> None:
    run = train(DQN, ENDLESS, num_iterations=6, num_env_steps=40)
    assert run.per_iteration("env_steps") == [20, 20, 0, 0, 0, 0]
    assert run.per_iteration("updates") == [1] * 6


def test_num_env_steps_ends_an_on_policy_run() -> None:
    assert train(PPO, ENDLESS, num_iterations=6, num_env_steps=40).result.iterations == 2


def test_num_epochs() -> None:
    epochs = list(make(PPO, ENDLESS, **EPOCHS))
    assert [(epoch.epoch, epoch.iterations, epoch.env_steps) for epoch in epochs] == [
        (1, 2, 40),
        (2, 2, 40),
        (3, 2, 40),
    ]


def test_num_epochs_ends_each_with_an_evaluation() -> None:
    epochs = list(make(PPO, ENDLESS, "ConstantRewardProbe.episode_length=3", **EPOCHS, **ONE_EVALUATION_EACH))
    assert [epoch.evaluation.iteration for epoch in epochs] == [2, 4, 6]


def test_num_epochs_zero_trains_nothing() -> None:
    untrained = weights(make(PPO, root_dir="untrained"))
    run = train(PPO, **{**EPOCHS, "num_epochs": 0})
    assert (run.result.iterations, run.result.env_steps) == (0, 0)
    assert torch.equal(run.weights, untrained)


def test_num_epochs_is_one_of_two_budgets() -> None:
    assert "are two budgets" in refusal(PPO, **{**EPOCHS, "num_env_steps": 100})
    assert "num_epochs: is set without num_steps_per_epoch" in refusal(PPO, num_iterations=0, num_epochs=3)


def test_num_steps_per_epoch_is_rounded_up_to_whole_iterations() -> None:
    trainer = make(PPO, ENDLESS, num_iterations=0, num_epochs=2, num_steps_per_epoch=200, unroll_length=3)
    assert [(epoch.iterations, epoch.env_steps) for epoch in trainer] == [(17, 204), (17, 204)]


def test_num_steps_per_epoch_is_told_as_what_it_comes_to() -> None:
    run = train(PPO, num_iterations=0, num_epochs=2, num_steps_per_epoch=50)
    assert "2 epochs of 3 iterations with 20 environment steps each" in run.console


def test_num_steps_per_epoch_needs_num_epochs() -> None:
    assert "num_steps_per_epoch: is set without num_epochs" in refusal(PPO, num_steps_per_epoch=40)
