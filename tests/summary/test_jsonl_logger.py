from __future__ import annotations

import json
from pathlib import Path

import pytest

from alfish.summary.jsonl_logger import JsonlLogger
from alfish.summary.writer import Moment


def opened(folder: Path, file: str = "progress.jsonl") -> JsonlLogger:
    logger = JsonlLogger(file)
    logger.open(folder)
    return logger


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_per_write(tmp_path):
    logger = opened(tmp_path)
    logger.write(Moment(3, 60, 1.23456), {"Loss/loss": 0.5, "Metrics/AverageReturn": float("nan")})
    logger.write(Moment(3, 60, 2.0, update=12), {"Loss/loss": float("inf")})
    assert lines(tmp_path / "progress.jsonl") == [
        {"iterations": 3, "env_steps": 60, "seconds": 1.235, "Loss/loss": 0.5, "Metrics/AverageReturn": None},
        {"updates": 12, "iterations": 3, "env_steps": 60, "seconds": 2.0, "Loss/loss": None},
    ]
    assert "NaN" not in (tmp_path / "progress.jsonl").read_text()


def test_the_file_may_be_elsewhere(tmp_path):
    opened(tmp_path / "run", "numbers/mine.jsonl").write(Moment(1, 1, 1.0), {})
    opened(tmp_path / "run", str(tmp_path / "other.jsonl")).write(Moment(1, 1, 1.0), {})
    assert (tmp_path / "run/numbers/mine.jsonl").exists()
    assert (tmp_path / "other.jsonl").exists()


def test_nothing_is_made_before_a_run_begins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    JsonlLogger()
    assert not list(tmp_path.iterdir())


def test_a_line_that_a_kill_left_unfinished_is_dropped(tmp_path):
    path = tmp_path / "progress.jsonl"
    opened(tmp_path).write(Moment(1, 1, 1.0), {"loss": 1.0})
    with path.open("a") as file:
        file.write('{"iterations": 2, "env')
    opened(tmp_path).write(Moment(2, 2, 2.0), {"loss": 2.0})
    assert [line["iterations"] for line in lines(path)] == [1, 2]


def test_what_came_after_the_checkpoint_is_cut_off(tmp_path):
    logger = opened(tmp_path)
    states = [logger.state_dict()]
    for iteration in (1, 2, 3):
        logger.write(Moment(iteration, 0, 0.0), {})
        states.append(logger.state_dict())
    resumed = opened(tmp_path)
    resumed.load_state_dict(states[3])
    assert len(lines(tmp_path / "progress.jsonl")) == 3
    resumed.load_state_dict(states[1])
    resumed.write(Moment(2, 0, 0.0), {})
    assert [line["iterations"] for line in lines(tmp_path / "progress.jsonl")] == [1, 2]
    resumed.load_state_dict(states[0])
    assert lines(tmp_path / "progress.jsonl") == []


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    logger = opened(tmp_path)
    logger.write(Moment(1, 0, 0.0), {})
    opening = Path.open

    def open_on_a_full_disk(self, *arguments, **options):
        file = opening(self, *arguments, **options)

        class Full:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                file.close()

            tell, truncate = file.tell, file.truncate

            def write(self, data: bytes) -> int:
                if len(data) < 20:
                    raise OSError("No space left on device")
                return file.write(data[:10])

        return Full()

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_on_a_full_disk)
        with pytest.raises(OSError, match="No space"):
            logger.write(Moment(2, 0, 0.0), {"loss": 1.0})
    logger.write(Moment(3, 0, 0.0), {})
    assert [line["iterations"] for line in lines(tmp_path / "progress.jsonl")] == [1, 3]
