from __future__ import annotations

import logging

import pytest

from alfish.environments.faults import Restarts, raised, returned
from alfish.errors import EnvironmentFault


def caught(error: Exception) -> Exception:
    try:
        raise error
    except Exception as raised_error:
        return raised_error


def test_an_exception_becomes_text_with_the_end_of_its_traceback() -> None:
    error = caught(ValueError("off the road"))
    fault = raised("Car-v0", 3, "in step 7 of episode 2, action 1", error)
    lines = str(fault).splitlines()
    assert lines[:2] == [
        "Car-v0: environment 3 raised ValueError: off the road",
        "  in step 7 of episode 2, action 1",
    ]
    assert lines[-1].strip() == "raise error"
    assert "test_faults.py" in lines[-2]
    assert fault.__cause__ is error


def test_an_exception_that_cannot_even_be_shown() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "raised Mute: (its message cannot be shown)" in str(raised("Car-v0", 0, "", caught(Mute())))


def test_without_restarts_every_fault_ends_the_run() -> None:
    fault = returned("Car-v0", 0, "in a step", "nothing")
    restarts = Restarts()
    assert restarts.are_used_up
    with pytest.raises(EnvironmentFault) as ended:
        restarts.permit(fault)
    assert ended.value is fault
    assert str(fault) == "Car-v0: environment 0 returned nothing\n  in a step"


def test_restarts_are_counted_said_and_limited(caplog: pytest.LogCaptureFixture) -> None:
    restarts = Restarts(2)
    with caplog.at_level(logging.WARNING):
        for number in (1, 2):
            assert not restarts.are_used_up
            restarts.permit(EnvironmentFault(f"fault {number}"))
    assert [record.getMessage() for record in caplog.records] == [
        "fault 1\n  It is restarted (1 of at most 2 times).",
        "fault 2\n  It is restarted (2 of at most 2 times).",
    ]
    assert restarts.are_used_up
    with pytest.raises(EnvironmentFault, match=r"fault 3\n.* 2 times already.*create_environment\.max_env_restarts"):
        restarts.permit(EnvironmentFault("fault 3"))
    assert restarts.count == 2
