from __future__ import annotations

import pytest

from alfish.summary.timers import Timers


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_every_second_belongs_to_one_phase():
    clock = Clock()
    timers = Timers(clock)
    clock.now += 1
    with timers("learn"):
        clock.now += 2
        with timers("env"):
            clock.now += 4
        clock.now += 8
    clock.now += 16
    with timers("env"):
        clock.now += 32
        assert timers.seconds() == {"other": 17.0, "learn": 10.0, "env": 36.0}
    assert timers.shares() == pytest.approx({"other": 17 / 63, "learn": 10 / 63, "env": 36 / 63})


def test_a_phase_that_raises_still_ends():
    clock = Clock()
    timers = Timers(clock)

    def fail() -> None:
        with timers("env"):
            clock.now += 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    clock.now += 2
    assert timers.seconds() == {"other": 2.0, "env": 1.0}


def test_a_phase_inside_itself():
    clock = Clock()
    timers = Timers(clock)
    with timers("env"), timers("env"):
        clock.now += 3
    assert timers.seconds() == {"other": 0.0, "env": 3.0}


def test_no_time_no_shares():
    assert Timers(Clock()).shares() == {}
