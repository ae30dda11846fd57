from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from alfish.training import crash
from alfish.training.checkpoint import CheckpointFolder
from alfish.training.crash import may_save
from tests.terminal import Terminal
from tests.training.tiny import bind, make, saved, train, weights

ERROR = ValueError("the wheel came off")


@pytest.mark.parametrize(
    ("answer", "expected"), [("n", False), ("No", False), ("", True), ("y", True), ("what?", True)]
)
def test_somebody_at_a_terminal_is_asked(monkeypatch, answer, expected):
    terminal = Terminal(monkeypatch)
    terminal.type(f"{answer}\n")
    assert may_save(ERROR, 12, asks=True) is expected
    shown = terminal.shown()
    assert "ValueError: the wheel came off" in shown
    assert "Save a checkpoint of iteration 12? [Y/n; yes after 60 s]" in shown


def test_somebody_who_does_not_want_to_be_asked_is_not(monkeypatch):
    terminal = Terminal(monkeypatch)
    terminal.type("n\n")
    assert may_save(ERROR, 12, asks=False)


def test_without_an_answer_it_is_saved(monkeypatch):
    Terminal(monkeypatch)
    monkeypatch.setattr(crash, "_SECONDS", 0.01)
    assert may_save(ERROR, 12, asks=True)


def test_a_terminal_that_was_closed_gives_no_answer(monkeypatch):
    os.close(Terminal(monkeypatch).person)
    assert may_save(ERROR, 12, asks=True)


@pytest.mark.parametrize("stdin", [None, io.StringIO("n\n")])
def test_elsewhere_nobody_is_asked(monkeypatch, stdin, capsys):
    monkeypatch.setattr("sys.stdin", stdin)
    assert may_save(ERROR, 12, asks=True)
    assert capsys.readouterr().err == ""


def raise_after(iteration: int) -> SimpleNamespace:
    """A hook with a mistake in it."""

    def hook(context) -> None:
        if context.progress.iterations == iteration:
            raise ERROR

    return SimpleNamespace(on_iteration_end=hook)


def test_an_error_between_two_iterations_loses_nothing(capsys):
    bind()
    whole = train("whole", num_iterations=6)
    with pytest.raises(ValueError, match="the wheel came off"):
        train(num_iterations=6, num_checkpoints=0, hooks=[raise_after(3)], verbose=True)
    assert saved() == [3]
    last = Path("run/checkpoints/000003")
    assert f"ValueError after iteration 3. The last checkpoint is {last}" in capsys.readouterr().err
    assert torch.equal(weights(train(num_iterations=6)), weights(whole))


def test_an_error_within_an_iteration_saves_nothing(monkeypatch, capsys):
    bind()
    trainer = make(num_iterations=6, num_checkpoints=3, verbose=True)

    def learn(experience) -> None:
        if trainer.progress.iterations == 3:
            raise ERROR  # parameters are those of iteration 4, counters those of iteration 3

    monkeypatch.setattr(trainer.algorithm, "after_train_iter", learn)
    with pytest.raises(ValueError, match="the wheel came off"):
        trainer.train()
    assert saved() == [2]
    last = Path("run/checkpoints/000002")
    assert f"ValueError in iteration 4. The last checkpoint is {last}" in capsys.readouterr().err


def test_what_is_being_written_when_an_error_comes_is_told_as_the_last_checkpoint(monkeypatch, capsys):
    bind()
    trainer = make(num_iterations=6, num_checkpoints=3, verbose=True)
    save, has_failed = CheckpointFolder.save, threading.Event()

    def save_later(folder, *arguments) -> None:
        assert has_failed.wait(30)
        save(folder, *arguments)

    def learn(experience) -> None:
        if trainer.progress.iterations == 2:  # the first of three checkpoints was begun just now
            has_failed.set()
            raise ERROR

    monkeypatch.setattr(CheckpointFolder, "save", save_later)
    monkeypatch.setattr(trainer.algorithm, "after_train_iter", learn)
    with pytest.raises(ValueError, match="the wheel came off"):
        trainer.train()
    last = Path("run/checkpoints/000002")
    assert f"ValueError in iteration 3. The last checkpoint is {last}" in capsys.readouterr().err


def test_before_the_first_iteration_there_is_nothing_to_save(capsys):
    bind()

    def hook(context) -> None:
        raise ERROR

    with pytest.raises(ValueError, match="the wheel came off"):
        train(hooks=[SimpleNamespace(on_train_start=hook)], verbose=True)
    assert not Path("run/checkpoints").exists()
    assert "There is no checkpoint" in capsys.readouterr().err


def test_whoever_says_no_gets_no_checkpoint_and_a_folder_that_is_free(monkeypatch):
    bind()
    Terminal(monkeypatch).type("n\n")
    with pytest.raises(ValueError, match="the wheel came off"):
        train(num_checkpoints=0, hooks=[raise_after(2)])
    assert not Path("run/checkpoints").exists()
    train()


def test_a_checkpoint_that_cannot_be_saved_does_not_hide_the_error(monkeypatch, capsys):
    bind()
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=0))
    with pytest.raises(ValueError, match="the wheel came off"):
        train(num_checkpoints=0, hooks=[raise_after(2)], verbose=True)
    assert "the run could not be saved: cannot save the checkpoint of iteration 2" in capsys.readouterr().err
