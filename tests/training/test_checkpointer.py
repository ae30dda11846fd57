from __future__ import annotations

import re
import threading
from pathlib import Path
from types import SimpleNamespace

import gin
import pytest
import torch
from torch import nn

from alfish.errors import CheckpointError, StorageFault
from alfish.training import checkpoint_writer, checkpointer
from alfish.training.checkpoint import CheckpointFolder
from alfish.training.checkpoint_writer import CheckpointWriter, copied
from tests.training.tiny import ENDLESS, EVERY_ITERATION, bind, make, saved, train, weights

SCORES = {"score_fn": lambda result: SEQUENCE[result.iteration - 1]}
SEQUENCE = [1.0, 3.0, 2.0, 5.0, 4.0, 0.0, 6.0, 0.0]


def best(root_dir: str = "run") -> int:
    return CheckpointFolder(Path(root_dir) / "checkpoints").find("best").iteration


@pytest.mark.parametrize(
    ("num_checkpoints", "iterations", "expected"),
    [(0, 7, [7]), (1, 7, [7]), (2, 7, [4, 7]), (3, 9, [3, 6, 9]), (10, 4, [1, 2, 3, 4])],
)
def test_checkpoints_are_evenly_spaced_and_the_last_is_at_the_end(num_checkpoints, iterations, expected):
    bind()
    train(num_checkpoints=num_checkpoints, num_iterations=iterations)
    assert saved() == expected


def test_checkpoints_are_evenly_spaced_over_environment_steps_too():
    bind(ENDLESS)
    train(num_checkpoints=2, num_iterations=0, num_env_steps=200)  # 20 steps per iteration
    assert saved() == [5, 10]


def test_a_resumed_run_saves_as_often_as_one_that_was_not_stopped():
    bind()
    train(num_checkpoints=4, num_iterations=4)
    train(num_checkpoints=4, num_iterations=8)
    assert saved() == [1, 2, 3, 4, 6, 8]


def test_the_best_checkpoint_is_kept_and_the_one_before_given_up():
    bind()
    found = []
    hook = SimpleNamespace(on_checkpoint=lambda context: found.append((int(context.path.name), best())))
    train(num_iterations=8, num_checkpoints=0, hooks=[hook], **EVERY_ITERATION, **SCORES)
    assert found == [(1, 1), (2, 2), (4, 4), (7, 7), (8, 7)]
    assert saved() == [7, 8]


def test_a_best_checkpoint_that_was_due_anyway_is_not_given_up():
    bind()
    train(num_iterations=8, num_checkpoints=4, **EVERY_ITERATION, **SCORES)
    assert saved() == [2, 4, 6, 7, 8]
    assert best() == 7


def test_the_best_checkpoint_holds_the_parameters_that_were_evaluated():
    bind()
    seen = {}
    hook = SimpleNamespace(on_eval_end=lambda context: seen.update({context.result.iteration: weights(context)}))
    train(num_iterations=8, num_checkpoints=0, hooks=[hook], **EVERY_ITERATION, **SCORES)
    model = CheckpointFolder(Path("run/checkpoints")).find("best").load("model")
    assert torch.equal(torch.cat([tensor.flatten() for tensor in model.values()]), seen[7])


def test_the_best_score_survives_a_resume():
    bind()
    options = {"num_checkpoints": 0, **EVERY_ITERATION, **SCORES}
    train(num_iterations=4, **options)
    assert best() == 4
    trainer = train(num_iterations=6, **options)
    assert trainer.result.best_score == 5.0
    assert (saved(), best()) == ([4, 6], 4)
    train(num_iterations=7, **options)
    assert (saved(), best()) == ([6, 7], 7)


def test_without_keep_best_there_is_none():
    bind()
    train(num_checkpoints=1, **EVERY_ITERATION, keep_best=False)
    assert saved() == [4]
    assert not Path("run/checkpoints/best").exists()


def test_a_damaged_best_checkpoint_is_not_the_best_any_more():
    bind()
    options = {"num_checkpoints": 4, **EVERY_ITERATION, **SCORES}
    train(num_iterations=4, **options)
    Path("run/checkpoints/000004/model.pt").write_bytes(b"")
    trainer = make(num_iterations=4, **options)
    assert trainer.progress.iterations == 3
    assert trainer.result.best_score == 3.0
    assert best() == 2
    trainer.train()
    assert best() == 4


class Disk:
    """A disk that can be full. Training waits for every save, so that a test knows when one fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=0 if self.is_full else 10**12))
        monkeypatch.setattr(checkpoint_writer, "available_memory", lambda: 0)

    def full_from(self, begin: int, end: int = 1_000) -> list[SimpleNamespace]:
        """Hooks that make the disk full after iteration `begin`, and give it room again after iteration `end`."""

        def look(context) -> None:
            self.is_full = begin <= context.progress.iterations < end

        return [SimpleNamespace(on_iteration_end=look)]


@pytest.fixture
def disk(monkeypatch) -> Disk:
    bind()
    return Disk(monkeypatch)


def test_a_full_disk_is_told_and_training_goes_on(disk, caplog):
    trainer = train(num_iterations=6, num_checkpoints=6, hooks=disk.full_from(2, 4))
    assert trainer.progress.iterations == 6
    assert saved() == [1, 2, 5, 6]
    first, second = (text for record in caplog.records if "cannot save" in (text := record.getMessage()))
    assert "cannot save the checkpoint of iteration 3 in run/checkpoints: No space left on device" in first
    assert re.search(r"\(needs 0\.0 MB, free: 0\.0 MB\)\. The last checkpoint is run/checkpoints/000002\.", first)
    assert "Training goes on; it is tried again in 60 s, or when the next one is due (failure 1 of 3)" in first
    assert "(failure 2 of 3)" in second
    assert not [path for path in Path("run/checkpoints").iterdir() if path.name.startswith(".")]


def test_three_failures_in_a_row_end_the_run(disk):
    with pytest.raises(StorageFault, match=r"iteration 5 .*000002\. That was failure 3 of 3 in a row"):
        train(num_iterations=20, num_checkpoints=20, hooks=disk.full_from(2))
    assert saved() == [1, 2]
    disk.is_full = False
    assert train(num_iterations=6).progress.iterations == 6


def test_a_failure_is_tried_again_before_the_next_checkpoint_is_due(disk, monkeypatch):
    monkeypatch.setattr(checkpointer, "_RETRY_SECONDS", 0.0)
    train(num_iterations=12, num_checkpoints=3, hooks=disk.full_from(3, 5))
    assert saved() == [6, 8, 12]  # 4 and 5 failed


def test_at_the_end_a_failure_says_what_is_lost(disk):
    with pytest.raises(StorageFault, match=r"iteration 6 .* What was learned after iteration 3 is lost"):
        train(num_iterations=6, num_checkpoints=2, hooks=disk.full_from(5))
    disk.is_full = True
    with pytest.raises(StorageFault, match=r"There is no checkpoint\. All of the run is lost"):
        train("other", num_checkpoints=0)


def test_when_the_best_can_neither_be_saved_nor_copied_the_one_before_stays(disk):
    train(num_iterations=8, num_checkpoints=1, hooks=disk.full_from(6, 7), **EVERY_ITERATION, **SCORES)
    assert (saved(), best()) == ([4, 8], 4)


@pytest.mark.parametrize("retry_seconds", [0.0, 60.0])
def test_a_best_that_could_not_be_saved_is_saved_when_there_is_room_again(disk, monkeypatch, retry_seconds):
    monkeypatch.setattr(checkpoint_writer, "available_memory", lambda: None)
    has_ended = CheckpointWriter.has_ended  # without patience it would depend on the disk's speed when a fault shows
    monkeypatch.setattr(CheckpointWriter, "has_ended", lambda self, patience=0.0: has_ended(self, 60.0))
    monkeypatch.setattr(checkpointer, "_RETRY_SECONDS", retry_seconds)
    models = {}

    def keep(context) -> None:
        models[context.progress.iterations] = copied(context.algorithm.state_dict())

    hooks = [*disk.full_from(6, 7), SimpleNamespace(on_iteration_end=keep)]
    train(num_iterations=8, num_checkpoints=1, hooks=hooks, **EVERY_ITERATION, **SCORES)
    assert (saved(), best()) == ([7, 8], 7)
    model = CheckpointFolder(Path("run/checkpoints")).find("best").load("model")
    assert all(torch.equal(model[name], models[7][name]) for name in model)


def test_what_a_kill_left_half_written_is_removed_at_the_next_start():
    bind()
    train()
    (Path("run/checkpoints/.000009.123")).mkdir()
    make(num_iterations=8).close()
    assert not Path("run/checkpoints/.000009.123").exists()


def test_training_does_not_wait_for_a_checkpoint_to_be_written(monkeypatch):
    bind()
    iteration_ended, written = threading.Event(), []
    save = CheckpointFolder.save

    def slow_save(self, iteration, *arguments):
        assert iteration_ended.wait(60)  # which it never is, if training waits
        written.append(iteration)
        return save(self, iteration, *arguments)

    monkeypatch.setattr(CheckpointFolder, "save", slow_save)
    hook = SimpleNamespace(on_iteration_end=lambda context: iteration_ended.set())
    train(num_iterations=4, num_checkpoints=4, hooks=[hook])
    assert written == saved() == [1, 2, 3, 4]


def test_another_architecture_is_refused_with_what_differs():
    bind()
    train()
    gin.bind_parameter("ActorDistributionNetwork.fc_layer_params", (8,))
    with pytest.raises(CheckpointError) as caught:
        make(num_iterations=8)
    message = str(caught.value)
    assert "holds another architecture:" in message
    assert "(4, 1) in the checkpoint, (8, 1) in the configuration" in message
    assert "actor_network" in message
    assert "value_network" not in message
    gin.bind_parameter("ActorDistributionNetwork.fc_layer_params", (4, 4))
    with pytest.raises(CheckpointError, match="only in the configuration"):
        make(num_iterations=8)


def test_another_number_format_is_another_architecture():
    saved_in_double = SimpleNamespace(load=lambda part: nn.Linear(4, 1).double().state_dict(), path="run")
    with pytest.raises(CheckpointError, match=r"weight: \(1, 4\) float64 in the checkpoint, \(1, 4\) in the conf"):
        checkpointer.load_model(nn.Linear(4, 1), saved_in_double)


def test_another_optimizer_is_refused():
    bind()
    train()
    gin.parse_config("PPOAlgorithm.optimizer = @SGD()\nSGD.lr = 0.1")
    with pytest.raises(CheckpointError, match="holds an optimizer Adam, the configuration makes none"):
        make(num_iterations=8)
