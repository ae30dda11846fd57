from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from alfish.config.problems import ConfigProblems
from alfish.errors import ConfigError
from alfish.summary.logger import GuardedLogger, LoggerWriter, open_loggers
from alfish.summary.writer import Moment

AT = Moment(1, 10, 0.5)


class Plain:
    """As little as a logger needs."""

    def __init__(self) -> None:
        self.written: list[tuple] = []

    def write(self, moment, values) -> None:
        self.written.append((moment, values))


class Full(Plain):
    def __init__(self, failing: tuple[str, ...] = (), error: Exception | None = None) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.failing, self.error = failing, error or RuntimeError("no network")
        self.state: object = {"id": 7}

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failing:
            raise self.error

    def open(self, folder: Path) -> None:
        self._call(f"open {folder}")

    def write(self, moment, values) -> None:
        self._call("write")
        super().write(moment, values)

    def close(self) -> None:
        self._call("close")

    def state_dict(self):
        self._call("state_dict")
        return self.state

    def load_state_dict(self, state) -> None:
        self._call("load_state_dict")
        self.state = state


def use(logger: GuardedLogger) -> None:
    logger.open(Path("run"))
    logger.load_state_dict(logger.state_dict())
    logger.write(AT, {"loss": 1.0})
    logger.close()
    logger.close()


def test_write_is_all_that_is_needed():
    plain = Plain()
    use(GuardedLogger(plain))
    assert plain.written == [(AT, {"loss": 1.0})]


def test_what_there_is_is_called_and_closing_happens_once():
    full = Full()
    use(GuardedLogger(full))
    assert full.calls == ["open run", "state_dict", "load_state_dict", "write", "close"]


@pytest.mark.parametrize("method", ["open run", "write", "close", "state_dict", "load_state_dict"])
def test_what_a_logger_raises_is_told_once_and_goes_no_further(method, caplog):
    full = Full((method,))
    guarded = GuardedLogger(full)
    with caplog.at_level(logging.WARNING):
        use(guarded)
        guarded.write(AT, {"loss": 2.0})
    (record,) = caplog.records
    assert f"Full.{method.split()[0]}: RuntimeError: no network. Training goes on" in record.message
    assert full.calls.count("write") == 2  # it may work again


def test_a_refusal_at_the_start_is_one():
    with pytest.raises(ConfigError, match="no network"):
        open_loggers([Full(("open run",), ConfigError("no network"))], Path("run"))


def test_what_is_no_logger_is_refused():
    with pytest.raises(ConfigProblems, match=r"TrainerConfig.loggers.*dict has no method write\(moment, values\)"):
        open_loggers([Plain(), {}], Path("run"))


def test_states_belong_to_a_kind_of_logger(caplog):
    first, second = Full(), Full()
    state = GuardedLogger(first).state_dict()
    GuardedLogger(second).load_state_dict(state)
    assert second.state == {"id": 7}
    GuardedLogger(Plain()).load_state_dict(state)
    second.state = "unchanged"
    GuardedLogger(second).load_state_dict({"Other": "{}"})
    assert second.state == "unchanged"
    second.state = object()  # JSON cannot hold it
    with caplog.at_level(logging.WARNING):
        assert GuardedLogger(second).state_dict() == {}
    assert len(caplog.records) == 1


def test_the_writer_with_a_prefix_is_a_guest():
    full = Full()
    guarded = GuardedLogger(full)
    host, guest = LoggerWriter(guarded), LoggerWriter(guarded, "eval/")
    guest.scalars(AT, {"Metrics/Score": 2.0})
    host.scalars(AT, {"loss": 1.0})
    for writer in (guest, host):
        writer.text(AT, "config", "text")
        writer.histogram(AT, "weights", np.zeros(3))
        writer.poll()
        writer.flush()
    assert full.written == [(AT, {"eval/Metrics/Score": 2.0}), (AT, {"loss": 1.0})]
    assert guest.state_dict() == {}
    guest.load_state_dict({"Full": "{}"})
    guest.close()
    assert full.calls == ["write", "write"]
    host.load_state_dict(host.state_dict())
    host.close()
    assert full.calls[2:] == ["state_dict", "load_state_dict", "close"]
