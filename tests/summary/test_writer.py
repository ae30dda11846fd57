from __future__ import annotations

import logging
import resource

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from alfish.summary.csv_file import CsvWriter
from alfish.summary.event_file import TensorBoardWriter
from alfish.summary.writer import Moment, ResilientWriter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def at(iterations: int) -> Moment:
    return Moment(iterations, 10 * iterations, float(iterations))


class full_disk:
    """Inside the block no file grows beyond `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __enter__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


def tag_steps(directory, tag: str = "loss") -> list[int]:
    return [event.step for event in EventAccumulator(str(directory)).Reload().Scalars(tag)]


def test_a_full_disk_drops_events_warns_once_and_heals(tmp_path, caplog):
    clock = Clock()
    writer = ResilientWriter(lambda: TensorBoardWriter(tmp_path, max_queue=1), "events", clock=clock)
    with caplog.at_level(logging.WARNING):
        writer.scalars(at(1), {"loss": 1.0})
        with full_disk(30):
            for iteration in (2, 3, 4):
                writer.scalars(at(iteration), {"loss": 1.0})
                clock.now += 30  # the first and the third are attempts
        writer.scalars(at(5), {"loss": 1.0})
        clock.now += 30
        writer.scalars(at(6), {"loss": 1.0})
        writer.close()
    assert tag_steps(tmp_path) == [1, 6]
    assert len(list(tmp_path.iterdir())) == 2
    assert [record.message for record in caplog.records] == [
        "cannot write events: [Errno 27] File too large. Training goes on, summaries are dropped until it works again "
        "(next attempt in 60 s)"
    ]


def test_a_second_outage_warns_again(tmp_path, caplog):
    clock = Clock()
    writer = ResilientWriter(lambda: TensorBoardWriter(tmp_path, max_queue=1), "events", clock=clock)
    with caplog.at_level(logging.WARNING):
        for iteration in (1, 2):
            with full_disk(10):
                writer.scalars(at(iteration), {"loss": 1.0})
            clock.now += 60
            writer.scalars(at(iteration), {"loss": 1.0})
            writer.flush()
    assert len(caplog.records) == 2


def test_a_table_on_a_full_disk_keeps_its_rows(tmp_path):
    clock = Clock()
    path = tmp_path / "progress.csv"
    writer = ResilientWriter(lambda: CsvWriter(path), str(path), clock=clock)
    writer.scalars(at(1), {"loss": 0.5})
    with full_disk(path.stat().st_size + 4):
        writer.scalars(at(2), {"loss": 0.5})
        clock.now += 60
        writer.scalars(at(3), {"loss": 0.5, "other": 1.0})
    assert [each.name for each in tmp_path.iterdir()] == ["progress.csv"]
    clock.now += 60
    writer.scalars(at(4), {"loss": 0.5})
    assert path.read_text() == "iterations,env_steps,seconds,loss\n1,10,1.0,0.5\n4,40,4.0,0.5\n"


def test_a_directory_that_cannot_be_made_is_only_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    writer = ResilientWriter(lambda: TensorBoardWriter(tmp_path / "file" / "train"), "train")
    writer.scalars(at(1), {"loss": 1.0})
    writer.flush()
    assert "cannot write train" in caplog.text
    assert writer.state_dict() == {}
    writer.load_state_dict({})
    writer.close()


def test_other_errors_are_bugs_and_stay_visible(tmp_path):
    writer = ResilientWriter(lambda: TensorBoardWriter(tmp_path), "events")
    with pytest.raises(TypeError):
        writer.scalars(at(1), {"loss": "high"})
