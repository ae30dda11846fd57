from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

from alfish.training.signals import StopSignals


def send(kind: signal.Signals) -> None:
    os.kill(os.getpid(), kind)


@pytest.fixture
def handled():
    """Signals that reached the handlers from before; these are put back in the end."""
    seen: list[int] = []
    before = {kind: signal.signal(kind, lambda number, frame: seen.append(number)) for kind in KINDS}
    yield seen
    for kind, handler in before.items():
        signal.signal(kind, handler)


KINDS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_signal_is_remembered_and_the_second_acts_as_usual(handled, kind):
    with StopSignals() as signals:
        assert signals.received is None
        send(kind)
        assert signals.received is kind
        assert handled == []
        send(kind)
        assert handled == [kind]


def test_a_second_signal_of_the_other_kind_acts_as_usual_too(handled):
    with StopSignals() as signals:
        send(signal.SIGTERM)
        send(signal.SIGINT)
        assert signals.received is signal.SIGTERM
        assert handled == [signal.SIGINT]


def test_handlers_are_restored_afterwards(handled):
    before = [signal.getsignal(kind) for kind in KINDS]
    with contextlib.suppress(ValueError), StopSignals():
        assert [signal.getsignal(kind) for kind in KINDS] != before
        raise ValueError("trouble")
    assert [signal.getsignal(kind) for kind in KINDS] == before


def test_outside_the_main_thread_nothing_changes():
    before = [signal.getsignal(kind) for kind in KINDS]
    seen = []

    def work() -> None:
        with StopSignals() as signals:
            seen.append((signals.received, [signal.getsignal(kind) for kind in KINDS]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]
