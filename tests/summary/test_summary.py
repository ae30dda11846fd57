from __future__ import annotations

import io

import pytest
import torch

from alfish.progress import Progress
from alfish.summary.csv_file import CsvWriter
from alfish.summary.event_file import TensorBoardWriter
from alfish.summary.summary import Summary
from alfish.summary.writer import Moment


class Recorder:
    """A writer that remembers what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_scopes_nest_and_a_slash_escapes_them(recorder):
    summary = Summary([recorder], Progress(iterations=4, env_steps=32), clock=lambda: 5.0)
    summary.enabled = True
    with summary.scope("Loss"):
        summary.scalar("total", 1.0)
        with summary.scope("critic"):
            summary.scalar("td", 2.0)
            summary.scalar("/Optimizer/lr", 3.0)
        summary.scalar("policy", 4.0)
    summary.scalar("top", 5.0)
    expected = {"Loss/total": 1.0, "Loss/critic/td": 2.0, "Optimizer/lr": 3.0, "Loss/policy": 4.0, "top": 5.0}
    assert summary.write() == expected
    assert recorder.calls == [("scalars", Moment(4, 32, 0.0), expected)]


def test_a_scope_ends_when_its_block_raises(recorder):
    summary = Summary([recorder], Progress())
    summary.enabled = True

    def fail() -> None:
        with summary.scope("Loss"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    summary.scalar("top", 1.0)
    assert summary.write() == {"top": 1.0}


def test_values_may_be_numbers_tensors_or_callables(recorder):
    summary = Summary([recorder], Progress())
    summary.enabled = True
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    summary.scalar("number", 3)
    summary.scalar("tensor", weight * 2)
    summary.scalar("count", torch.tensor([1, 2]))
    summary.scalar("callable", lambda: weight.sum())
    assert summary.write() == {"number": 3.0, "tensor": 3.0, "count": 1.5, "callable": 3.0}


def test_several_mini_batches_are_averaged_and_a_write_starts_anew(recorder):
    summary = Summary([recorder], Progress())
    summary.enabled = True
    summary.scalar("loss", 1.0)
    summary.scalar("loss", torch.tensor(2.0))
    assert summary.write() == {"loss": 1.5}
    summary.scalar("loss", 5.0)
    assert summary.write() == {"loss": 5.0}
    assert summary.write() == {}
    assert [call[0] for call in recorder.calls] == ["scalars", "scalars"]


def test_what_belongs_to_one_update_is_written_against_its_number(recorder):
    progress = Progress(iterations=4, env_steps=32)
    summary = Summary([recorder], progress, clock=lambda: 5.0)
    summary.enabled = True
    summary.scalar("epsilon", 0.1)
    for progress.updates in (8, 9):
        with summary.of_update(), summary.scope("Loss"):
            summary.scalar("loss", float(progress.updates))
            summary.histogram("gradient", torch.ones(1))
    summary.scalar("epsilon", 0.3)
    with summary.of_update():
        pass  # nothing was said
    progress.iterations = 5
    assert recorder.calls == []
    assert summary.write({"Steps": 32}) == {"epsilon": pytest.approx(0.2), "Metrics/Steps": 32.0}
    assert [(call[0], call[1]) for call in recorder.calls] == [
        ("scalars", Moment(5, 32, 0.0, update=8)),
        ("histogram", Moment(5, 32, 0.0, update=8)),
        ("scalars", Moment(5, 32, 0.0, update=9)),
        ("histogram", Moment(5, 32, 0.0, update=9)),
        ("scalars", Moment(5, 32, 0.0)),
    ]
    assert recorder.calls[0][2] == {"Loss/loss": 8.0}
    assert summary.write() == {}


def test_while_disabled_nothing_is_computed(recorder):
    summary = Summary([recorder], Progress())

    def fail() -> float:
        raise AssertionError("called")

    with summary.scope("Loss"):
        summary.scalar("loss", fail)
        summary.histogram("weights", torch.ones(3))
    assert summary.write() == {}
    assert recorder.calls == []


def test_metrics_have_their_own_scope(recorder):
    summary = Summary([recorder], Progress())
    assert summary.write({"AverageReturn": 7, "NumberOfEpisodes": 2}) == {
        "Metrics/AverageReturn": 7.0,
        "Metrics/NumberOfEpisodes": 2.0,
    }


def test_histograms_and_texts_reach_every_writer():
    first, second = Recorder(), Recorder()
    summary = Summary([first, second], Progress(iterations=1), clock=lambda: 0.0)
    summary.text("config", "lr = 1")
    summary.enabled = True
    summary.histogram("weights", torch.tensor([[1.0], [2.0]], dtype=torch.bfloat16))
    summary.histogram("gradient", None)
    summary.write()
    for writer in (first, second):
        text, histogram = writer.calls
        assert text == ("text", Moment(1, 0, 0.0), "config", "lr = 1")
        assert histogram[:3] == ("histogram", Moment(1, 0, 0.0), "weights")
        assert histogram[3].tolist() == [[1.0], [2.0]]


def test_a_resumed_run_goes_on_in_files_and_seconds(tmp_path):
    now = [100.0]

    def make(progress: Progress) -> Summary:
        writers = [TensorBoardWriter(tmp_path / "train"), CsvWriter(tmp_path / "progress.csv")]
        return Summary(writers, progress, clock=lambda: now[0])

    progress = Progress()
    summary = make(progress)
    for iteration in (1, 2):
        progress.iterations = iteration
        now[0] += 10
        summary.write({"AverageReturn": 1.0})
        if iteration == 1:
            file = io.BytesIO()
            torch.save(summary.state_dict(), file)
    summary.close()

    file.seek(0)
    now[0] = 5000.0
    progress = Progress(iterations=2)
    resumed = make(progress)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    now[0] += 7
    assert resumed.seconds == 17.0
    resumed.write({"AverageReturn": 2.0})
    resumed.close()
    assert (tmp_path / "progress.csv").read_text().splitlines() == [
        "iterations,env_steps,seconds,Metrics/AverageReturn",
        "1,0,10.0,1.0",
        "2,0,17.0,2.0",
    ]


def test_disabled_takes_everything_and_gives_nothing():
    summary = Summary.disabled()
    summary.scalar("loss", 1.0)
    summary.text("a", "b")
    summary.poll()
    summary.flush()
    assert summary.write() == {}
