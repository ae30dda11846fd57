"""Checkpoints: how many, the best one, and the one after an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.options.running import EVALUATE, PPO, make, train
from tests.terminal import Terminal

BEST_IS_SECOND = f"import tests.options.parts\n{EVALUATE}\nTrainerConfig.score_fn = @second_is_best"
CRASH = "import tests.options.parts\nTrainerConfig.hooks = [@Crash()]\nCrash.iteration = 2"


def best(folder: str = "run") -> str | None:
    link = Path(folder) / "checkpoints" / "best"
    return link.resolve().name if link.exists() else None


@pytest.mark.parametrize(("number", "expected"), [(4, [2, 4, 6, 8]), (3, [3, 6, 8]), (1, [8]), (8, [*range(1, 9)])])
def test_num_checkpoints_evenly_spaced_the_last_at_the_end(number: int, expected: list[int]) -> None:
    assert train(PPO, num_iterations=8, num_checkpoints=number).checkpoints == expected


def test_num_checkpoints_zero_keeps_only_the_last() -> None:
    assert train(PPO, num_iterations=8, num_checkpoints=0).checkpoints == [8]


def test_num_checkpoints_goes_on_counting_after_a_resume() -> None:
    train(PPO, num_iterations=4, num_checkpoints=2)
    assert train(PPO, num_iterations=8, num_checkpoints=4).checkpoints == [2, 4, 6, 8]


def test_keep_best() -> None:
    run = train(PPO, BEST_IS_SECOND, keep_best=True)
    assert run.checkpoints == [2, 4]
    assert best() == "000002"
    assert run.result.best_score == 0.0


def test_keep_best_survives_a_resume() -> None:
    train(PPO, BEST_IS_SECOND, keep_best=True)
    run = train(PPO, BEST_IS_SECOND, num_iterations=6, keep_best=True)
    assert (best(), run.result.best_score) == ("000002", 0.0)
    assert 2 in run.checkpoints


def test_keep_best_false_keeps_none() -> None:
    assert train(PPO, BEST_IS_SECOND, keep_best=False).checkpoints == [4]
    assert best() is None


def test_keep_best_is_idle_without_evaluations_and_that_is_said() -> None:
    assert "TrainerConfig.keep_best: no effect, since evaluate is False" in train(PPO, keep_best=False).console


def sit_down(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Somebody at the terminal of the run types `n` and Enter."""
    terminal = Terminal(monkeypatch)
    terminal.type("n\n")
    return terminal


def crash(**options: bool) -> bool:
    """Whether a run that an error ends after its second iteration is saved."""
    trainer = make(PPO, CRASH, **options)
    with pytest.raises(ValueError, match="the wheel came off"):
        trainer.train()
    return Path("run/checkpoints/000002").exists()


def test_confirm_checkpoint_upon_crash_asks_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = sit_down(monkeypatch)
    assert not crash(confirm_checkpoint_upon_crash=True)
    assert "Save a checkpoint of iteration 2? [Y/n" in terminal.shown()


def test_confirm_checkpoint_upon_crash_false_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = sit_down(monkeypatch)
    assert crash(confirm_checkpoint_upon_crash=False)
    assert "Save a checkpoint" not in terminal.shown()


def test_confirm_checkpoint_upon_crash_asks_nobody_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert crash(confirm_checkpoint_upon_crash=True)
    assert train(PPO).result.iterations == 4, "the folder is free again, and the run goes on"
