from __future__ import annotations

from alfish.training.run_readme import readme_text

STARTED = {
    "algorithm": "PPOAlgorithm",
    "environment": "CartPole-v1",
    "num_environments": 8,
    "modules": [],
    "seed": 5,
    "budget": "98,000 environment steps",
    "limits": {"num_env_steps": 98_000},
    "state": "running",
    "started": "2026-11-16 10:00:00 +0000",
    "python": "3.11.7",
    "versions": {"alfish": "0.1.0", "torch": "2.13.0", "gymnasium": "1.4.0"},
}
ENDED = {
    **STARTED,
    "state": "done",
    "ended": "2026-11-16 10:00:30 +0000",
    "iterations": 97,
    "env_steps": 98_978,
    "updates": 7760,
    "best_score": 500.0,
    "evaluation": {"mean_return": 499.5, "std_return": 1.5, "episodes": 100, "iteration": 97, "env_steps": 98_978},
}


def test_it_says_what_was_trained_on_what_when_and_with_what():
    text = readme_text(STARTED)
    assert text.startswith("# PPOAlgorithm on CartPole-v1\n")
    assert "alfish 0.1.0 (torch 2.13.0, gymnasium 1.4.0, Python 3.11.7)" in text
    assert "in 8 environments, for 98,000 environment steps, with seed 5" in text
    assert "Started 2026-11-16 10:00:00 +0000. This was written at the start" in text
    assert "evaluation:" not in text


def test_it_says_what_came_of_it():
    text = readme_text(ENDED)
    assert "ended 2026-11-16 10:00:30 +0000 (done) after 97 iterations, 98,978 environment steps, 7,760 updates" in text
    assert (
        "mean return 499.50 +- 1.50 over 100 episodes, at iteration 97. Best score of all evaluations: 500.00" in text
    )
    assert "written at the start" not in text


def test_it_names_the_commands_and_the_files():
    text = readme_text(ENDED)
    for command in ("alfish.play", "alfish.evaluate", "alfish inspect .", "--gin_file=config.gin"):
        assert command in text
    for file in ("run.json", "config.gin", "operative.gin", "progress.csv", "checkpoints/"):
        assert f"`{file}`" in text


def test_going_on_takes_a_larger_budget_of_the_same_kind():
    assert "--root_dir=. TrainerConfig.num_env_steps=196000`" in readme_text(ENDED)
    epochs = {**ENDED, "limits": {"num_epochs": 3, "num_env_steps": 10}}
    assert "--root_dir=. TrainerConfig.num_epochs=6`" in readme_text(epochs)


def test_modules_of_the_user_are_named():
    assert "imports my_task, which Python must be able to find" in readme_text({**STARTED, "modules": ["my_task"]})
    assert "must be able to find" not in readme_text(STARTED)


SUPERVISED = {
    **{name: value for name, value in ENDED.items() if "environment" not in name},
    "ml_type": "sl",
    "data": "blobs",
    "num_examples": 500,
    "budget": "20 epochs",
    "limits": {"num_iterations": 20},
    "iterations": 20,
    "env_steps": 0,
    "updates": 200,
    "best_score": 0.9876,
    "evaluation": {"metrics": {"accuracy": 0.98, "loss": 0.1}, "iteration": 20},
}


def test_a_run_over_data_is_told_in_epochs_and_cannot_be_watched():
    text = readme_text(SUPERVISED)
    assert text.startswith("# PPOAlgorithm on blobs\n")
    assert "on 500 examples, for 20 epochs, with seed 5" in text
    assert "after 20 epochs, 200 updates" in text
    assert "Last evaluation: accuracy 0.98, loss 0.1, after epoch 20. Best score of all evaluations: 0.9876." in text
    assert "`python -m alfish.evaluate --root_dir=.`" in text
    assert "TrainerConfig.num_iterations=40`" in text
    for word in ("alfish.play", "episode", "environment"):
        assert word not in text
