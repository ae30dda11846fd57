"""`ml_type = 'sl'` and `eval_uncertainty`, and that the other options work over data as they do in environments."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from alfish.training.environment_task import EnvironmentTask
from alfish.training.results import SupervisedEvalResult
from alfish.training.supervised_task import SupervisedTask
from alfish.training.trainer import Trainer
from tests.options import running
from tests.options.running import PPO, Run, load, make, refusal, train
from tests.training.test_exact_resume import assert_same, state_of

REPOSITORY = Path(__file__).parent.parent.parent
SL = """
TrainerConfig.ml_type = "sl"
TrainerConfig.algorithm_ctor = @EnsembleClassificationAlgorithm
TrainerConfig.random_seed = 1
TrainerConfig.num_iterations = 4
TrainerConfig.num_checkpoints = 0
TrainerConfig.mini_batch_size = 20
create_dataset.data_ctor = @blobs
blobs.num_train = 50
blobs.num_test = 40
blobs.num_outliers = 30
EnsembleClassificationAlgorithm.num_members = 3
EnsembleClassificationAlgorithm.optimizer = @Adam()
EncodingNetwork.fc_layer_params = (8,)
Adam.lr = 0.01
"""
OWN = """
import tests.options.supervised_parts
TrainerConfig.ml_type = "sl"
TrainerConfig.algorithm_ctor = @SureSlopeAlgorithm
TrainerConfig.random_seed = 1
TrainerConfig.num_iterations = 6
TrainerConfig.mini_batch_size = 2
TrainerConfig.evaluate = True
TrainerConfig.eval_interval = 3
create_dataset.data_ctor = @own_data
SlopeAlgorithm.optimizer_ctor = @SGD
SureSlopeAlgorithm.optimizer_ctor = @SGD
SGD.lr = 0.02
"""
EVALUATE = {"evaluate": True, "eval_interval": 1}


def evaluated(run: Run) -> list[int]:
    return sorted(run.scalars("Metrics/accuracy", "eval"))


# ml_type


def test_ml_type_sl_drives_a_data_loader_and_makes_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object, **more: object) -> None:
        raise AssertionError("an environment was made")

    monkeypatch.setattr("alfish.training.environment_task.create_environment", never)
    monkeypatch.setattr("alfish.training.evaluator.create_environment", never)
    run = train(SL, **EVALUATE)
    assert isinstance(run.trainer.task, SupervisedTask)
    # Four epochs of 50 examples in mini batches of 20, 20 and 10.
    assert run.per_iteration("updates") == [3, 3, 3, 3]
    assert run.result.env_steps == run.result.episodes == 0
    assert run.scalars("Metrics/Examples") == {1: 50, 2: 100, 3: 150, 4: 200}
    assert isinstance(run.result.evaluation, SupervisedEvalResult)
    assert "EnsembleClassificationAlgorithm with 351 parameters on 50 examples of blobs, for 4 epochs" in run.console


def test_ml_type_rl_drives_an_environment() -> None:
    run = train(PPO, ml_type="rl")
    assert isinstance(run.trainer.task, EnvironmentTask)
    assert run.result.env_steps > 0


def test_ml_type_of_another_kind_is_refused_with_those_that_there_are() -> None:
    told = refusal(PPO, ml_type="xx")
    assert "TrainerConfig.ml_type" in told
    assert "'rl'" in told
    assert "'sl'" in told


def test_ml_type_sl_yields_an_epoch_for_every_iteration() -> None:
    load(SL)
    epochs = list(Trainer(root_dir="run"))
    assert [(epoch.epoch, epoch.iterations, epoch.updates) for epoch in epochs] == [(n, 1, 3) for n in (1, 2, 3, 4)]
    assert epochs[0].loss is not None
    assert epochs[-1].loss is not None
    assert epochs[-1].loss < epochs[0].loss


def test_ml_type_sl_evaluates_by_asking_the_algorithm() -> None:
    run = train(OWN)
    calls = run.trainer.algorithm.calls  # type: ignore[union-attr]
    assert calls == ["evaluate 3", "evaluate 6"]
    assert run.result.evaluation is not None
    assert run.result.evaluation.score == -((run.trainer.algorithm.slope.item() - 2) ** 2)  # type: ignore[union-attr]
    assert run.scalars("Metrics/loss", "eval").keys() == {3, 6}


def test_ml_type_and_an_algorithm_of_the_other_kind_are_refused() -> None:
    told = refusal(SL, "TrainerConfig.algorithm_ctor = @PPOAlgorithm")
    assert "PPOAlgorithm learns in environments: leave TrainerConfig.ml_type out" in told
    told = refusal(PPO, "TrainerConfig.algorithm_ctor = @EnsembleClassificationAlgorithm")
    assert "EnsembleClassificationAlgorithm learns from data: set TrainerConfig.ml_type = 'sl'" in told


def test_ml_type_sl_refuses_and_warns_of_what_is_about_environments() -> None:
    assert "with ml_type = 'sl' there are no environments" in refusal(SL, unroll_length=4)
    run = train(SL, num_eval_episodes=7)
    assert "TrainerConfig.num_eval_episodes: no effect, since ml_type is 'sl'" in run.console


# eval_uncertainty


def test_eval_uncertainty_asks_the_algorithm_at_every_evaluation() -> None:
    run = train(SL, **EVALUATE, eval_uncertainty=True)
    assert run.scalars("Metrics/outlier_disagreement", "eval").keys() == {1, 2, 3, 4}
    assert "outlier separation" in run.console
    assert not any("outlier" in tag for tag in train(SL, root_dir="other", **EVALUATE).tags("eval"))


def test_eval_uncertainty_is_called_after_evaluate() -> None:
    run = train(OWN, "own_data.has_outliers = True", eval_uncertainty=True)
    calls = run.trainer.algorithm.calls  # type: ignore[union-attr]
    assert calls == ["evaluate 3", "eval_uncertainty 3", "evaluate 6", "eval_uncertainty 6"]
    assert run.scalars("Metrics/doubt", "eval") == {3: 0.25, 6: 0.25}


LARGER = """
blobs.num_train = 200
EnsembleClassificationAlgorithm.num_members = 5
EncodingNetwork.fc_layer_params = (32,)
"""


def test_eval_uncertainty_is_higher_on_another_distribution() -> None:
    for seed in range(3):
        options = {"evaluate": True, "num_evals": 1, "eval_uncertainty": True, "num_iterations": 12}
        run = train(SL, LARGER, root_dir=f"run{seed}", **options, random_seed=seed)
        assert isinstance(run.result.evaluation, SupervisedEvalResult)
        metrics = run.result.evaluation.metrics
        assert metrics["accuracy"] > 0.9
        assert metrics["outlier_entropy"] > 2 * metrics["entropy"]
        assert metrics["outlier_disagreement"] > 2 * metrics["disagreement"]


def test_eval_uncertainty_needs_an_algorithm_and_data_that_have_it() -> None:
    told = refusal(OWN, "TrainerConfig.algorithm_ctor = @SlopeAlgorithm", eval_uncertainty=True)
    assert "TrainerConfig.eval_uncertainty" in told
    assert "SlopeAlgorithm has no eval_uncertainty" in told
    assert "own_data has no outliers" in refusal(OWN, eval_uncertainty=True)


def test_eval_uncertainty_in_environments_is_refused() -> None:
    told = refusal(PPO, evaluate=True, eval_uncertainty=True)
    assert "TrainerConfig.eval_uncertainty" in told
    assert "only ml_type = 'sl' has eval_uncertainty" in told


# The other options, over data


def test_num_evals_and_eval_interval_count_epochs() -> None:
    assert evaluated(train(SL, evaluate=True, num_evals=2)) == [2, 4]
    assert evaluated(train(SL, evaluate=True, eval_interval=3, root_dir="other")) == [3, 4]


def test_num_checkpoints_and_keep_best() -> None:
    assert train(SL, num_checkpoints=2).checkpoints == [2, 4]
    text = "import tests.options.supervised_parts\nTrainerConfig.score_fn = @first_is_best"
    assert train(SL, text, root_dir="best", **EVALUATE).checkpoints == [1, 4]
    assert Path("best/checkpoints/best").resolve().name == "000001"
    assert train(SL, text, root_dir="no", keep_best=False, **EVALUATE).checkpoints == [4]


def test_num_summaries() -> None:
    run = train(SL, num_summaries=2, summarize_first_interval=False)
    assert run.scalars("Loss/loss").keys() == {2, 4}


def test_stop_condition_ends_an_sl_run() -> None:
    text = "TrainerConfig.stop_condition = @ReturnAtLeast()\nReturnAtLeast.value = 0.9"
    run = train(SL, text, **EVALUATE, num_iterations=60)
    assert run.result.stopped_by == "ReturnAtLeast"
    assert run.result.iterations < 60
    assert run.result.evaluation is not None
    assert run.result.evaluation.score >= 0.9


def test_hooks_see_epochs_and_evaluations() -> None:
    seen: list[str] = []
    hook = SimpleNamespace(
        on_train_start=lambda context: seen.append("start"),
        on_epoch_end=lambda context: seen.append(f"epoch {context.stats.epoch}"),
        on_eval_end=lambda context: seen.append(f"eval {context.result.iteration}"),
        on_train_end=lambda context: seen.append("end"),
    )
    trainer = make(SL, evaluate=True, num_evals=1)
    trainer.hooks = running.Hooks([hook], trainer.algorithm, trainer.config, trainer.progress)
    trainer.train()
    assert seen == ["start", "epoch 1", "epoch 2", "epoch 3", "eval 4", "epoch 4", "end"]


def test_random_seed_repeats_an_sl_run_and_another_seed_does_not() -> None:
    one, same, other = (train(SL, root_dir=f"{n}", random_seed=seed).weights for n, seed in enumerate((1, 1, 2)))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_num_threads_over_data() -> None:
    threads: list[int] = []
    train(SL, num_threads=2, each=lambda trainer: threads.append(torch.get_num_threads()))
    assert threads == [2, 2, 2, 2]


def test_enable_amp_over_data() -> None:
    whole, mixed = train(SL).weights, train(SL, root_dir="mixed", enable_amp=True).weights
    assert not torch.equal(whole, mixed)
    torch.testing.assert_close(whole, mixed, atol=0.05, rtol=0.1)


def test_summaries_of_gradients_and_their_noise_over_data() -> None:
    tags = train(SL, summarize_grads_and_vars=True, summarize_gradient_noise_scale=True).tags()
    assert any(tag.startswith("Gradients/network") for tag in tags)
    assert any("noise_scale" in tag for tag in tags)


def test_schedules_follow_epochs() -> None:
    text = """
        Adam.lr = @LinearScheduler()
        LinearScheduler.progress_type = "iterations"
        LinearScheduler.schedule = [(0, 0.01), (4, 0.0)]
    """
    rates = train(SL, text).scalars("Optimizer/Adam/learning_rate")
    assert rates == pytest.approx({1: 0.01, 2: 0.0075, 3: 0.005, 4: 0.0025})


# Going on

SCHEDULED = """
Adam.lr = @LinearScheduler()
LinearScheduler.progress_type = "iterations"
LinearScheduler.schedule = [(0, 0.01), (8, 0.0)]
"""


def test_a_run_over_data_that_is_stopped_twice_is_the_one_that_was_not_to_the_bit() -> None:
    whole = train(SL, SCHEDULED, root_dir="whole", num_iterations=8, **EVALUATE)
    for epochs in (2, 5, 8):
        stopped = train(SL, SCHEDULED, root_dir="stopped", num_iterations=epochs, **EVALUATE)
    assert "going on from iteration 5, with the next epoch" in stopped.console
    assert_same(state_of(whole.trainer), state_of(stopped.trainer))
    assert whole.result.best_score == stopped.result.best_score
    assert evaluated(stopped) == evaluated(whole) == list(range(1, 9))
    assert stopped.scalars("Loss/loss") == whole.scalars("Loss/loss")


def test_a_run_over_data_that_is_killed_in_an_epoch_goes_on_from_its_checkpoint_to_the_bit() -> None:
    text = f"""{SCHEDULED}
        import tests.options.supervised_parts
        TrainerConfig.algorithm_ctor = @MortalClassificationAlgorithm
        MortalClassificationAlgorithm.optimizer = @Adam()
    """
    options = {"num_iterations": 8, "num_checkpoints": 4}
    whole = train(SL, text, root_dir="whole", **options)
    load(SL, text, **options)  # writes the files
    files = ["--gin_file=preset.gin", "--gin_file=text.gin"]
    given = [f"TrainerConfig.{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "alfish.train", "--root_dir=killed", *files, *given]
    killed = subprocess.run(
        [*command, "MortalClassificationAlgorithm.dies_in_update=11"],  # the second of three of the fourth epoch
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    stopped = train(SL, text, root_dir="killed", **options)
    assert stopped.start.iterations == 2
    assert_same(state_of(whole.trainer), state_of(stopped.trainer))
    assert stopped.scalars("Loss/loss") == whole.scalars("Loss/loss")


def test_other_data_in_the_same_folder_are_refused() -> None:
    train(SL)
    assert "was trained with data blobs" in refusal(SL, "create_dataset.data_ctor = @segment_digits")
