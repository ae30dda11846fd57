from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import gin
import pytest

from alfish import config
from alfish.config.command import run
from alfish.config.record import Config
from alfish.errors import CheckpointError


def _failing(error: BaseException) -> Callable[[Sequence[str]], int]:
    def main(argv: Sequence[str]) -> int:
        raise error

    return main


def test_exit_codes() -> None:
    assert run(lambda argv: None, []) == 0
    assert run(lambda argv: len(argv), ["a", "b"]) == 2
    assert run(_failing(KeyboardInterrupt()), []) == 130


def test_errors_for_people_have_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ALFISH_DEBUG", raising=False)
    assert run(_failing(CheckpointError("it is damaged")), []) == 6
    assert capsys.readouterr().err == "error: it is damaged\n"
    monkeypatch.setenv("ALFISH_DEBUG", "1")
    assert run(_failing(CheckpointError("it is damaged")), []) == 6
    assert "Traceback" in capsys.readouterr().err


@config.configurable
def make_trouble(kind: str = "none") -> None:
    """Raises inside of a configurable, where gin adds to the message."""
    if kind == "problems":
        raise config.ConfigProblems([config.Problem(("make_trouble.kind", "make_trouble.size"), "do not go together")])
    if kind == "error":
        raise CheckpointError("it is damaged")
    raise ValueError("a bug")


def _trouble(argv: Sequence[str]) -> int:
    make_trouble()
    return 0


def test_problems_of_constructors_are_shown_with_places(
    load: Callable[..., Config], write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    load(write(f"import {__name__}\nmake_trouble.kind = 'problems'\n"))
    assert run(_trouble, []) == 2
    assert capsys.readouterr().err == (
        "error: make_trouble.kind (a.gin:2) and make_trouble.size (default): do not go together\n"
    )


def test_gin_adds_nothing_to_messages(capsys: pytest.CaptureFixture[str]) -> None:
    gin.parse_config("make_trouble.kind = 'error'")
    assert run(_trouble, []) == 6
    assert capsys.readouterr().err == "error: it is damaged\n"


def test_a_bug_keeps_its_traceback_without_gins_frames(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_trouble, []) == 1
    text = capsys.readouterr().err
    assert "in make_trouble" in text
    assert "ValueError: a bug" in text
    assert "gin_wrapper" not in text


def test_notes_and_warnings_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def main(argv: Sequence[str]) -> int:
        logging.getLogger("alfish.config.loading").info("a note")
        logging.getLogger("alfish.config.report").warning("a doubt")
        return 0

    run(main, [])
    assert capsys.readouterr().err == "a note\nwarning: a doubt\n"
    assert not logging.getLogger("alfish").handlers


def test_a_message_that_cannot_be_shown_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    def main(argv: Sequence[str]) -> int:
        with monkeypatch.context() as patch:
            patch.setattr("sys.stderr", Full())
            logging.getLogger("alfish").warning("a doubt")
        return 5

    assert run(main, []) == 5
