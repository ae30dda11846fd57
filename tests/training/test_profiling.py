from __future__ import annotations

import pstats
from pathlib import Path

import pytest

from alfish.training.profiling import LoopProfiler

FOLDER = Path("profile")


def multiply() -> int:
    return 6 * 7


def learn() -> int:
    return multiply() + multiply()


def consume() -> None: ...


def functions() -> dict[str, int]:
    """How often each function was called."""
    stats = pstats.Stats(str(FOLDER / "profile.pstats")).stats  # type: ignore[attr-defined]
    return {name: calls for (_, _, name), (_, calls, *_) in stats.items()}


def text() -> str:
    return (FOLDER / "profile.txt").read_text()


def profiled(iterations: int) -> LoopProfiler:
    profiler = LoopProfiler(FOLDER)
    for _ in range(iterations):
        profiler.resume()
        learn()
        profiler.pause()
        consume()
    return profiler


def test_functions_of_the_loop_and_of_nothing_else() -> None:
    profiled(4).close()
    assert functions()["learn"] == 4
    assert functions()["multiply"] == 8
    assert "consume" not in functions()


def test_the_text_lists_functions_and_who_calls_them() -> None:
    profiled(4).close()
    assert text().startswith("4 iterations. profile.pstats")
    own, rest = text().split("Functions with all that they call")
    called, callers = rest.split("Who calls those that take longest")
    assert "(multiply)" in own
    assert "(learn)" in called
    assert "(multiply)" in callers


def test_what_an_error_broke_off_is_written() -> None:
    profiler = profiled(1)
    profiler.resume()
    learn()
    profiler.close()
    assert functions()["learn"] == 2
    assert text().startswith("1 iterations and one that was broken off.")


def test_nothing_is_written_without_an_iteration_and_without_a_folder() -> None:
    profiled(0).close()
    nothing = LoopProfiler(None)
    nothing.resume()
    nothing.pause()
    nothing.close()
    assert not FOLDER.exists()


def test_closing_twice_is_fine() -> None:
    profiler = profiled(1)
    profiler.close()
    profiler.close()
    assert functions()["learn"] == 1


def test_a_folder_that_cannot_be_written_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    FOLDER.write_text("a file is in the way")
    profiled(1).close()
    assert "TrainerConfig.profiling: cannot write to profile" in caplog.text


def test_beside_another_profiler_it_says_that_it_cannot(caplog: pytest.LogCaptureFixture) -> None:
    class Taken:
        def enable(self) -> None:
            raise ValueError("Another profiling tool is already active")

    profiler = LoopProfiler(FOLDER)
    profiler._profile = Taken()  # type: ignore[assignment]
    for _ in range(2):
        profiler.resume()
        profiler.pause()
    profiler.close()
    assert caplog.text.count("no profile is written: Another profiling tool is already active") == 1
    assert not FOLDER.exists()
