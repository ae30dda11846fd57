from __future__ import annotations

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from alfish.summary.event_file import TensorBoardWriter, _masked_crc32c
from alfish.summary.writer import Moment


def at(iterations: int) -> Moment:
    return Moment(iterations, 100 * iterations, 2.5 * iterations)


def read(directory) -> EventAccumulator:
    return EventAccumulator(str(directory), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}).Reload()


def scalars(directory, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read(directory).Scalars(tag)]


def test_checksums_are_crc32c():
    # The check value of CRC-32C, 0xE3069283 for "123456789", masked as TFRecord does.
    crc = 0xE3069283
    assert _masked_crc32c(b"123456789") == ((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def test_tensorboard_reads_scalars_texts_and_histograms(tmp_path):
    writer = TensorBoardWriter(tmp_path / "train")
    writer.scalars(at(1), {"Loss/value": 0.5, "Loss/policy": -2.0})
    writer.scalars(at(2), {"Loss/value": 0.25})
    writer.text(at(2), "config", "# PPO\n`lr = 1`")
    writer.histogram(at(2), "weights", np.array([1.0, 2.0, 3.0, np.nan]))
    writer.close()
    events = read(tmp_path / "train")
    assert [(e.step, e.value) for e in events.Scalars("Loss/value")] == [(1, 0.5), (2, 0.25)]
    assert [(e.step, e.value) for e in events.Scalars("Loss/policy")] == [(1, -2.0)]
    text = events.Tensors("config")[0]
    assert (text.step, list(text.tensor_proto.string_val)) == (2, [b"# PPO\n`lr = 1`"])
    assert events.SummaryMetadata("config").plugin_data.plugin_name == "text"
    histogram = events.Histograms("weights")[0]
    assert histogram.step == 2
    value = histogram.histogram_value
    assert (value.min, value.max, value.num, value.sum, value.sum_squares) == (1.0, 3.0, 3.0, 6.0, 14.0)
    assert sum(value.bucket) == 3


def test_metrics_are_written_against_iterations_environment_steps_and_seconds(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.scalars(at(3), {"Metrics/AverageReturn": 7.0, "Loss/value": 1.0})
    writer.close()
    assert scalars(tmp_path, "Metrics/AverageReturn") == [(3, 7.0)]
    assert scalars(tmp_path, "Metrics_vs_EnvironmentSteps/AverageReturn") == [(300, 7.0)]
    assert scalars(tmp_path, "Metrics_vs_WallTime/AverageReturn") == [(7, 7.0)]
    assert len(read(tmp_path).Tags()["scalars"]) == 4


def test_events_reach_the_disk_after_the_flush_time_or_a_full_queue(tmp_path):
    now = [0.0]
    writer = TensorBoardWriter(tmp_path, flush_seconds=1.0, max_queue=3, clock=lambda: now[0])
    writer.scalars(at(1), {"loss": 1.0})
    assert not list(tmp_path.iterdir())
    now[0] = 1.0
    writer.poll()
    assert scalars(tmp_path, "loss") == [(1, 1.0)]
    for iteration in (2, 3):
        writer.scalars(at(iteration), {"loss": 1.0})
    assert scalars(tmp_path, "loss") == [(1, 1.0)]
    writer.scalars(at(4), {"loss": 1.0})
    assert [step for step, _ in scalars(tmp_path, "loss")] == [1, 2, 3, 4]


def test_a_resumed_run_writes_no_step_twice(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    for iteration in range(1, 4):
        writer.scalars(at(iteration), {"Metrics/AverageReturn": 1.0})
    state = writer.state_dict()
    for iteration in range(4, 8):
        writer.scalars(at(iteration), {"Metrics/AverageReturn": 1.0})
    writer.flush()
    later = TensorBoardWriter(tmp_path)
    later.scalars(at(8), {"Metrics/AverageReturn": 1.0})
    later.close()
    assert len(list(tmp_path.iterdir())) == 2

    resumed = TensorBoardWriter(tmp_path)
    resumed.load_state_dict(state)
    for iteration in range(4, 6):
        resumed.scalars(at(iteration), {"Metrics/AverageReturn": 2.0})
    resumed.close()
    expected = [(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0)]
    assert scalars(tmp_path, "Metrics/AverageReturn") == expected
    by_steps = scalars(tmp_path, "Metrics_vs_EnvironmentSteps/AverageReturn")
    assert by_steps == [(100 * step, value) for step, value in expected]
    assert all("tfevents" in path.name for path in tmp_path.iterdir())


def test_a_clock_that_goes_back_does_not_disorder_the_files(tmp_path, monkeypatch):
    for iteration, now in ((1, 2_000_000_000.0), (2, 1_000_000_000.0), (3, 1_000_000_000.0)):
        monkeypatch.setattr("time.time", lambda now=now: now)
        writer = TensorBoardWriter(tmp_path)
        writer.scalars(at(iteration), {"loss": float(iteration)})
        writer.close()
    assert scalars(tmp_path, "loss") == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_cutting_after_the_first_event_is_refused(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.scalars(at(1), {"loss": 1.0})
    state = writer.state_dict()
    with pytest.raises(RuntimeError, match="before the first event"):
        writer.load_state_dict(state)
