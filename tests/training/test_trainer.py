from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import gin
import pytest
import torch

from alfish import config
from alfish.algorithms.actor_critic_loss import ActorCriticLoss
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.errors import CheckpointError, NumericFault, StorageFault
from alfish.training.trainer import Trainer
from tests.training.tiny import (
    ALGORITHMS,
    ENDLESS,
    EVERY_ITERATION,
    OPTIONS,
    TINY,
    bind,
    column,
    make,
    saved,
    train,
    weights,
)

CARTPOLE = 'create_environment.env_name = "CartPole-v1"'


def run_json(root_dir: str | Path = "run") -> dict:
    return json.loads((Path(root_dir) / "run.json").read_text())


# Seeds


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_equal_seeds_give_equal_bits_and_others_do_not(algorithm):
    bind(CARTPOLE)
    one, same, other = (
        weights(train(name, random_seed=seed, **ALGORITHMS[algorithm])) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_equal_seeds_give_equal_bits_whatever_the_global_generators_say():
    bind(CARTPOLE)
    torch.manual_seed(1)
    one = weights(train("a"))
    torch.manual_seed(2)
    assert torch.equal(weights(train("b")), one)


def test_the_seed_that_was_drawn_repeats_the_run():
    bind(CARTPOLE)
    drawn = train("drawn", random_seed=None)
    seed = run_json("drawn")["seed"]
    assert torch.equal(weights(train("again", random_seed=seed)), weights(drawn))
    assert not torch.equal(weights(train("other", random_seed=None)), weights(drawn))


def test_evaluation_leaves_the_algorithm_in_training_mode():
    bind()
    modes = []
    hook = SimpleNamespace(on_eval_end=lambda context: modes.append(context.algorithm.training))
    train(hooks=[hook], **EVERY_ITERATION)
    assert modes == [True] * 4


# Budgets


def test_an_epoch_of_200_steps_is_17_iterations_and_204_steps():
    bind(ENDLESS)
    trainer = make(num_iterations=1000, num_epochs=1, num_steps_per_epoch=200, unroll_length=3)
    (epoch,) = trainer
    assert (epoch.epoch, epoch.iterations, epoch.env_steps, epoch.updates) == (1, 17, 204, 17)
    assert (trainer.progress.iterations, trainer.progress.env_steps) == (17, 204)


def test_no_epochs_train_nothing():
    bind()
    trainer = make(num_iterations=1000, num_epochs=0, num_steps_per_epoch=200)
    before = weights(trainer)
    assert list(trainer) == []
    assert torch.equal(weights(trainer), before)
    assert trainer.progress.env_steps == trainer.progress.updates == 0


def test_environment_steps_as_budget_end_the_run_within_one_unroll():
    bind(CARTPOLE)
    trainer = train(num_iterations=0, num_env_steps=130)
    assert 130 <= trainer.progress.env_steps < 130 + 20
    assert trainer.progress.env_steps == trainer.algorithm.metrics.env_steps


def test_the_step_that_resets_an_environment_is_not_counted():
    bind(ENDLESS + "ConstantRewardProbe.episode_length = 2")
    trainer = train(num_iterations=3)  # MID LAST FIRST MID LAST, FIRST MID LAST FIRST MID, LAST FIRST MID LAST FIRST
    assert trainer.progress.env_steps == 4 * (4 + 3 + 3)
    assert trainer.progress.episodes == 4 * 5


def test_with_both_limits_the_first_one_ends_an_on_policy_run():
    bind(ENDLESS)
    assert train("steps", num_iterations=100, num_env_steps=60).progress.iterations == 3
    assert train("iterations", num_iterations=2, num_env_steps=60).progress.env_steps == 40


def test_four_passes_over_2048_samples_in_batches_of_64_are_128_updates():
    bind()
    options = {"num_updates_per_train_iter": 4, "mini_batch_length": 1, "mini_batch_size": 64}
    trainer = train(num_iterations=1, unroll_length=512, **options)
    assert trainer.progress.updates == 128


def test_the_progress_goes_from_nothing_to_the_whole():
    bind()
    seen = []
    train(hooks=[SimpleNamespace(on_iteration_end=lambda context: seen.append(context.progress.fraction))])
    assert seen == [0.25, 0.5, 0.75, 1.0]


# Results


def test_without_epochs_the_whole_run_is_one():
    bind()
    (epoch,) = make()
    assert (epoch.epoch, epoch.iterations) == (1, 4)


def test_zipped_trainers_equal_their_solo_runs():
    bind(CARTPOLE)
    options = {"num_iterations": 1000, "num_epochs": 3, "num_steps_per_epoch": 40, "evaluate": True}
    solo = [train(f"solo{seed}", random_seed=seed, **options) for seed in (1, 2)]
    zipped = [make(f"zipped{seed}", random_seed=seed, **options) for seed in (1, 2)]
    pairs = list(zip(*zipped, strict=False))
    assert [(one.epoch, two.epoch) for one, two in pairs] == [(1, 1), (2, 2), (3, 3)]
    for alone, together in zip(solo, zipped, strict=True):
        assert torch.equal(weights(alone), weights(together))
        assert together.result.evaluation == alone.result.evaluation
        assert saved(together.folder.path) == saved(alone.folder.path)
        assert run_json(together.folder.path)["state"] == "done"


def test_a_trainer_that_has_ended_says_so():
    bind()
    trainer = train()
    with pytest.raises(RuntimeError, match="this trainer has ended; a new one with its root_dir goes on"):
        trainer.train()


# The run folder


def test_what_the_run_was_is_written_down():
    bind()
    trainer = make(num_threads=2)
    assert run_json()["state"] == "running"
    trainer.train()
    facts = run_json()
    assert (facts["seed"], facts["torch_threads"], facts["state"]) == (1, 2, "done")
    assert facts["budget"] == "4 iterations"
    assert torch.get_num_threads() == 2
    train("one")
    assert run_json("one")["torch_threads"] == 1


def test_the_configuration_is_kept_with_what_was_used_of_it():
    Path("mine.gin").write_text(TINY + "TrainerConfig.algorithm_ctor = @PPOAlgorithm\n")
    config.load(["mine.gin"], ["TrainerConfig.num_iterations=2"])
    Trainer(TrainerConfig(verbose=False, show_progress=False), "run").train()
    given = Path("run/config.gin").read_text()
    assert "TrainerConfig.num_iterations = 2" in given
    assert "mine.gin:" in given
    used = Path("run/operative.gin").read_text()
    assert "Adam.lr = 0.01" in used
    assert "PPOLoss.gamma = 0.99" in used


def test_a_folder_that_is_in_use_is_refused_before_anything_is_built():
    bind()
    trainer = make()
    with pytest.raises(StorageFault, match=f"in use by process {os.getpid()}"):
        make()
    trainer.close()
    make().close()


def test_when_a_part_cannot_be_made_the_folder_is_free_again():
    bind()
    with pytest.raises(config.ConfigProblems) as caught:
        make(hooks=[object()])
    assert make().folder.is_open
    assert "hooks" in str(caught.value)


def test_nothing_is_printed_when_nothing_shall_be(capfd):
    bind()
    train(**EVERY_ITERATION)
    assert capfd.readouterr() == ("", "")
    train("loud", verbose=True, show_progress=True)
    assert "seed 1, 1 torch thread(s), run folder loud" in capfd.readouterr().err


@pytest.mark.parametrize(("option", "told"), [("verbose", "run folder"), ("show_progress", "100%")])
def test_messages_and_progress_are_switched_apart(capfd, option, told):
    bind()
    train(**{option: True})
    err = capfd.readouterr().err
    assert told in err
    assert ("run folder" in err, "100%" in err) == (option == "verbose", option == "show_progress")


# Numbers that are not finite


class Poisoned(ActorCriticLoss):
    """The policy loss of the third update is not finite."""

    calls = 0

    def _policy_loss(self, info, log_prob, progress):
        self.calls += 1
        loss, extra = super()._policy_loss(info, log_prob, progress)
        return (loss * float("nan"), extra) if self.calls == 3 else (loss, extra)


def poison() -> None:
    bind()
    gin.bind_parameter("ActorCriticAlgorithm.loss_class", Poisoned)


def test_a_loss_that_is_not_finite_stops_the_run_before_it_does_harm():
    poison()
    seen = []
    hook = SimpleNamespace(on_iteration_end=lambda context: seen.append(weights(context)))
    trainer = make(hooks=[hook], **ALGORITHMS["a2c"])
    with pytest.raises(NumericFault, match=r"the loss is nan: policy_loss is not finite") as caught:
        trainer.train()
    assert caught.value.exit_code == 4
    assert torch.equal(weights(trainer), seen[-1])
    assert trainer.progress.updates == 2
    assert saved() == [1, 2]
    assert run_json()["state"] == "NumericFault"
    dump = torch.load("run/nan_dump.pt", weights_only=True)
    assert dump["time_step.observation"].shape == (5, 4, 1)
    assert not trainer.folder.is_open


def test_such_an_update_may_be_skipped():
    poison()
    seen = []
    hook = SimpleNamespace(on_iteration_end=lambda context: seen.append(weights(context)))
    trainer = train(hooks=[hook], nan_policy="skip", summary_interval=1, **ALGORITHMS["a2c"])
    assert trainer.progress.updates == 3
    assert torch.equal(seen[1], seen[2])
    assert not torch.equal(seen[2], seen[3])
    assert trainer.algorithm.loop.updater.skipped == 1
    assert column("run/progress.csv", "Optimizer/skipped_updates")[-1] == 1
    assert torch.isfinite(weights(trainer)).all()
    assert not Path("run/nan_dump.pt").exists()


# Going on


def test_a_run_goes_on_where_it_was():
    bind(CARTPOLE)
    first = train(num_iterations=4, random_seed=None)
    optimizer = {
        name: {key: tensor.clone() for key, tensor in state.items()}
        for name, state in first.algorithm.optimizer.state_dict().items()
    }
    second = make(num_iterations=6, random_seed=None)
    assert second.seeds.root == first.seeds.root
    assert vars(second.progress) == {**vars(first.progress), "fraction": 4 / 6}
    assert torch.equal(weights(second), weights(first))
    restored = second.algorithm.optimizer.state_dict()
    assert all(torch.equal(restored[name][key], optimizer[name][key]) for name in optimizer for key in optimizer[name])
    second.train()
    assert (second.progress.iterations, second.progress.updates) == (6, 6)
    assert second.progress.env_steps > first.progress.env_steps
    assert saved() == [1, 2, 3, 4, 5, 6]


def test_action_sampling_does_not_begin_anew():
    bind(ENDLESS)
    first = train()
    state = first.algorithm.generator.get_state()
    second = make(num_iterations=8)
    assert torch.equal(second.algorithm.generator.get_state(), state)
    second.close()


def test_an_abandoned_episode_is_in_no_metric():
    # Episodes of 8 steps, unrolls of 5: two steps of the second episode are over when the run is stopped.
    bind(ENDLESS + "ConstantRewardProbe.episode_length = 8")
    train(num_iterations=2)
    trainer = train(num_iterations=6)
    assert set(trainer.algorithm.metrics.latest("AverageReturn")) == {8.0}
    assert set(trainer.algorithm.metrics.latest("AverageEpisodeLength")) == {8.0}


def test_the_number_of_environments_may_change():
    bind(ENDLESS)
    train(num_iterations=2)
    gin.bind_parameter("create_environment.num_parallel_environments", 8)
    trainer = train(num_iterations=4)
    assert trainer.progress.env_steps == 2 * 20 + 2 * 40


def test_a_run_that_is_done_trains_nothing_more():
    bind()
    first = train()
    again = train()
    assert torch.equal(weights(first), weights(again))
    assert again.progress.updates == 4


def test_a_damaged_checkpoint_is_passed_over_and_that_is_said(caplog):
    bind()
    train()
    file = Path("run/checkpoints/000004/state.pt")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    trainer = make()
    assert trainer.progress.iterations == 3
    assert "state.pt is damaged: its checksum differs" in caplog.text
    assert "Using the checkpoint of iteration 3" in caplog.text
    trainer.train()
    assert trainer.folder.checkpoints.newest().iteration == 4


def test_when_every_checkpoint_is_damaged_nothing_begins_from_scratch():
    bind()
    train(num_checkpoints=1)
    os.truncate("run/checkpoints/000004/model.pt", 100)
    with pytest.raises(CheckpointError, match="no checkpoint is whole"):
        make()
    assert saved() == [4]


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_in_order(kind):
    bind()
    ends = []

    def interrupt(context) -> None:
        if context.progress.iterations == 2:
            os.kill(os.getpid(), kind)

    hooks = [SimpleNamespace(on_iteration_end=interrupt), SimpleNamespace(on_train_end=ends.append)]
    before = signal.getsignal(kind)
    result = make(hooks=hooks, num_checkpoints=1, num_iterations=10, evaluate=True).train()
    assert (result.iterations, result.stopped_by) == (3, kind.name)
    assert saved() == [3]
    assert run_json()["state"] == kind.name
    assert len(ends) == 1
    assert signal.getsignal(kind) is before
    assert train(num_iterations=10).progress.iterations == 10


def test_a_second_interrupt_leaves_at_once():
    bind()

    def interrupt(context) -> None:
        signal.raise_signal(signal.SIGINT)  # to this thread: two that go by way of others may become one
        signal.raise_signal(signal.SIGINT)

    trainer = make(hooks=[SimpleNamespace(on_train_start=interrupt)])
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert not trainer.folder.is_open
    assert run_json()["state"] == "interrupted"
    assert not Path("run/checkpoints").exists()


def test_leaving_the_loop_closes_everything():
    bind()
    trainer = make(num_iterations=1000, num_epochs=5, num_steps_per_epoch=40)
    for epoch in trainer:
        if epoch.epoch == 2:
            break
    assert run_json()["state"] == "interrupted"
    assert not trainer.folder.is_open


@pytest.mark.parametrize("leaves_by", ["break", "an error"])
def test_leaving_the_loop_saves(leaves_by):
    bind(CARTPOLE)
    told = []
    options = {"num_iterations": 1000, "num_epochs": 5, "num_steps_per_epoch": 40, "num_checkpoints": 1}
    whole = train("whole", **options)
    hooks = [SimpleNamespace(on_checkpoint=lambda context: told.append(context.path.name))]
    trainer = make(**options, hooks=hooks)
    with suppress(ZeroDivisionError):
        for epoch in trainer:
            if epoch.epoch == 2 and leaves_by == "break":
                break
            if epoch.epoch == 2:
                1 / 0  # noqa: B018
    assert saved() == [trainer.progress.iterations]
    assert told == [f"{trainer.progress.iterations:06d}"]
    assert torch.equal(weights(train(**options)), weights(whole))


def test_leaving_the_loop_after_the_last_epoch_is_no_interruption():
    bind()
    for _ in make(num_iterations=1000, num_epochs=1, num_steps_per_epoch=40):
        break
    assert run_json()["state"] == "done"


def test_the_algorithm_may_be_bound_by_gin():
    bind("TrainerConfig.algorithm_ctor = @PPOAlgorithm\nTrainerConfig.num_iterations = 3")
    quiet = {name: value for name, value in OPTIONS.items() if name in ("verbose", "show_progress")}
    trainer = Trainer(TrainerConfig(**quiet), "run")
    trainer.train()
    assert isinstance(trainer.algorithm, PPOAlgorithm)
    assert trainer.progress.iterations == 3
