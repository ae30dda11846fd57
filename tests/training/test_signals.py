from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from alfish.training.signals import RunSignals

STOP = (signal.SIGINT, signal.SIGTERM)
KINDS = (*STOP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


def send(kind: signal.Signals) -> None:
    signal.raise_signal(kind)


def make(grace_period: float = 60.0) -> RunSignals:
    return RunSignals(Path(), grace_period, lambda: "no checkpoint")


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Signals that reached the handlers from before; these are put back in the end."""
    seen: list[int] = []
    before = {kind: signal.signal(kind, lambda number, frame: seen.append(number)) for kind in KINDS}
    yield seen
    for kind, handler in before.items():
        signal.signal(kind, handler)


def test_the_file_that_asks_for_an_evaluation_is_looked_for_now_and_then(monkeypatch, tmp_path):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    signals, file = RunSignals(tmp_path, 60.0, lambda: "no checkpoint"), tmp_path / "evaluate"
    assert not signals.takes_evaluation_wish()
    file.touch()
    assert not signals.takes_evaluation_wish()
    now += 0.11
    assert signals.takes_evaluation_wish()
    assert not file.exists()
    now += 0.11
    assert not signals.takes_evaluation_wish()


@pytest.mark.parametrize("kind", STOP)
def test_the_first_signal_is_remembered_and_the_second_acts_as_usual(handled, kind):
    with make() as signals:
        assert signals.received is None
        send(kind)
        assert signals.received is kind
        assert handled == []
        send(kind)
        assert handled == [kind]


def test_a_second_signal_of_the_other_kind_acts_as_usual_too(handled):
    with make() as signals:
        send(signal.SIGTERM)
        send(signal.SIGINT)
        assert signals.received is signal.SIGTERM
        assert handled == [signal.SIGINT]


def test_the_second_one_leaves_also_where_the_shell_had_them_ignored(handled):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # `alfish train ... &`
    with make() as signals:
        send(signal.SIGINT)
        assert signals.received is signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_a_checkpoint_can_be_wished_for_again_and_again(handled):
    with make() as signals:
        assert not signals.takes_checkpoint_wish()
        for _ in range(2):
            send(signal.SIGUSR2)
            send(signal.SIGUSR2)
            assert not signals.takes_evaluation_wish()
            assert signals.takes_checkpoint_wish()
            assert not signals.takes_checkpoint_wish()
        assert signals.received is None


def test_an_evaluation_can_be_wished_for_by_a_signal(handled):
    with make() as signals:
        send(signal.SIGHUP)
        assert not signals.takes_checkpoint_wish()
        assert signals.takes_evaluation_wish()
        assert not signals.takes_evaluation_wish()


def test_an_evaluation_can_be_wished_for_by_a_file_which_is_taken_away():
    signals = make()  # where signals cannot be taken, files can
    Path("evaluate").touch()
    assert signals.takes_evaluation_wish()
    assert not Path("evaluate").exists()
    assert not signals.takes_evaluation_wish()


def test_the_stacks_are_written_into_the_run_folder_and_shown_once(handled, capfd):
    with make():
        send(signal.SIGUSR1)
        first = Path("stacks.txt").read_text()
        assert "test_the_stacks_are_written" in first
        assert f"(process {os.getpid()}, " in first
        assert capfd.readouterr().err.strip() == first.strip()
        send(signal.SIGUSR1)
        both = Path("stacks.txt").read_text()
        assert both.startswith(first)
        assert capfd.readouterr().err.strip() == both[len(first) :].strip()
    assert Path("stacks.txt").read_text() == both
    assert handled == []


def test_without_stacks_there_is_no_file():
    with make():
        pass
    assert os.listdir() == []


def test_handlers_are_restored_afterwards(handled):
    before = [signal.getsignal(kind) for kind in KINDS]
    with contextlib.suppress(ValueError), make():
        assert all(signal.getsignal(kind) is not old for kind, old in zip(KINDS, before, strict=True))
        raise ValueError("trouble")
    assert [signal.getsignal(kind) for kind in KINDS] == before
    for kind in KINDS:
        send(kind)
    assert handled == list(KINDS)
    assert not [thread for thread in threading.enumerate() if thread.name == "grace period"]


def test_outside_the_main_thread_nothing_changes():
    before = [signal.getsignal(kind) for kind in KINDS]
    seen = []

    def work() -> None:
        with make() as signals:
            seen.append((signals.received, [signal.getsignal(kind) for kind in KINDS]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


@pytest.mark.parametrize("kind", STOP)
def test_a_run_that_is_stuck_leaves_after_the_grace_period(kind):
    script = f"""
        import os, time
        from pathlib import Path
        from alfish.training.signals import RunSignals
        with RunSignals(Path(), 0.2, lambda: "The last checkpoint is 000007"):
            os.kill(os.getpid(), {int(kind)})
            while True:
                time.sleep(1)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 128 + kind
    said = f"{kind.name}: not done after 0.2 s, leaving without saving. The last checkpoint is 000007\n"
    assert done.stderr == said
