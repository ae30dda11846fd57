from __future__ import annotations

import io

import pytest
import torch

from alfish.progress import Progress
from alfish.summary.console import Console, Status, format_number, format_seconds, format_status
from alfish.summary.metrics import EpisodeMetrics
from alfish.summary.timers import Timers
from alfish.types import StepType, TimeStep

STATUS = Status(
    fraction=0.43,
    count=43008,
    per_second=8650.4,
    value=312.44,
    shares={"other": 0.02, "act": 0.221, "env": 0.309, "learn": 0.45, "eval": 0.001},
    seconds_left=66.6,
)
FACTS = "return 312.4  43,008 steps  8,650/s  act 22% env 31% learn 45% other 2%  1:07 left"


def test_the_line_by_hand():
    assert format_status(STATUS) == f" 43% [########............]  {FACTS}"
    assert format_status(STATUS, bar=False) == f" 43%  {FACTS}"


def test_what_is_not_known_yet_is_left_out():
    status = Status(fraction=0.0, count=0, per_second=0.0)
    assert format_status(status) == "  0% [....................]  return -  0 steps  0/s"
    done = Status(fraction=1.0004, count=10, per_second=1.0, value=-1.0, seconds_left=0.0)
    assert format_status(done) == "100% [####################]  return -1  10 steps  1/s  0:00 left"


def test_a_narrow_terminal_loses_the_bar_and_then_the_end():
    assert format_status(STATUS, width=100) == f" 43%  {FACTS}"
    assert format_status(STATUS, width=20) == " 43%  return 312.4  "


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (475.0, "475"), (-183.27, "-183.3"), (0.05123, "0.05123"), (21345.6, "21,346"), (1e12, "1e+12")],
)
def test_numbers(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(7.4, "0:07"), (754, "12:34"), (18367, "5:06:07")])
def test_times(seconds, text):
    assert format_seconds(seconds) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Run:
    """A run with a clock of its own."""

    def __init__(self, stream: io.StringIO, **options) -> None:
        self.now = 50.0
        self.stream = stream
        self.progress = Progress()
        self.metrics = EpisodeMetrics(1)
        self.timers = Timers(lambda: self.now)
        self.console = Console(stream, clock=lambda: self.now, **options)
        self.console.begin(self.progress)

    def go(self, seconds: float, fraction: float) -> None:
        self.now += seconds
        self.progress.fraction = fraction
        self.progress.env_steps = round(1000 * fraction)
        self.console.update(self.progress, self.metrics, self.timers)


def test_plain_lines_come_every_tenth_of_the_run_and_every_ten_seconds():
    run = Run(io.StringIO())
    for step in range(1, 11):
        run.go(0.5, step / 100)
    assert run.stream.getvalue() == " 10%  return -  100 steps  20/s  other 100%  0:45 left\n"
    for seconds, fraction in [(9.5, 0.11), (0.5, 0.12), (1, 0.35), (1, 0.39), (1, 0.4), (1, 0.41)]:
        run.go(seconds, fraction)
    percents = [line.split("%")[0].strip() for line in run.stream.getvalue().splitlines()]
    assert percents == ["10", "12", "35", "40"]


def test_a_terminal_has_one_live_line_under_the_messages(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    run = Run(Terminal())
    run.go(0.0625, 0.01)
    assert run.stream.getvalue() == ""
    run.go(0.0625, 0.02)
    run.console.message("checkpoint 1")
    run.console.close()
    line = "  2% [....................]  return -  20 steps  160/s  other 100%  0:06 left"
    assert run.stream.getvalue() == f"\r\x1b[K{line}\r\x1b[Kcheckpoint 1\n{line}\n"


def test_after_a_resume_the_rates_count_from_there():
    run = Run(io.StringIO())
    run.progress.fraction, run.progress.env_steps = 0.5, 500
    run.console.begin(run.progress)
    run.go(10.0, 0.75)
    assert run.stream.getvalue() == " 75%  return -  750 steps  25/s  other 100%  0:10 left\n"


def test_the_return_is_that_of_the_latest_episodes():
    run = Run(io.StringIO())
    first_and_last = torch.tensor([[StepType.FIRST], [StepType.LAST]], dtype=torch.int32)
    rewards = torch.tensor([[0.0], [12.5]])
    run.metrics.observe(TimeStep(first_and_last, rewards, torch.ones(2, 1), (), (), torch.zeros(2, 1)))
    run.go(10.0, 0.5)
    assert "return 12.5 " in run.stream.getvalue()


def test_silence_on_request():
    run = Run(io.StringIO(), show_progress=False, verbose=False)
    run.go(100.0, 0.9)
    run.console.message("hello")
    run.console.close()
    assert run.stream.getvalue() == ""


def test_a_closed_stream_does_not_stop_the_run():
    run = Run(io.StringIO())
    run.stream.close()
    run.go(10.0, 0.5)
    run.console.message("hello")
    assert not run.console._show_progress  # it gave up writing, rather than failing at every update


class Losses:
    headline = ("loss", 0.25)


def test_a_run_without_environments_is_told_in_updates():
    stream = io.StringIO()
    console = Console(stream, clock=lambda: 0.0, counts="updates")
    progress = Progress(updates=40, env_steps=7, fraction=0.5)
    console.show(console.status(progress, Losses(), Timers(lambda: 0.0)))
    assert stream.getvalue() == " 50%  loss 0.25  40 updates  0/s\n"
