"""`make bench-quick` fails on a clear loss, and not on a bad moment."""

from __future__ import annotations

from collections.abc import Iterator

import bench_quick
import pytest


def test_only_a_clear_loss_counts() -> None:
    recorded = {"a": 1.0, "b": 1.0, "c": 0.4}
    assert bench_quick.losses({"a": 0.76, "b": 0.74, "c": 0.4, "new": 0.01}, recorded) == ["b"]


def test_a_bad_moment_is_tried_again() -> None:
    ratios = iter([0.5, 0.6, 0.9])
    best, lost = bench_quick.judge(lambda rounds, folder: {"a": next(ratios)}, {"a": 1.0}, rounds=1)
    assert (best, lost) == ({"a": 0.9}, [])


def test_a_loss_that_stays_is_one() -> None:
    best, lost = bench_quick.judge(lambda rounds, folder: {"a": 0.6}, {"a": 1.0}, rounds=1)
    assert (best, lost) == ({"a": 0.6}, ["a"])


def test_ratios_are_of_processor_time_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(bench_quick, "process_time", lambda: now[0])

    def loop(seconds: float, steps: int) -> Iterator[int]:
        count = 0
        while True:
            now[0] += seconds
            count += steps
            yield count

    # 10 steps in 4 s, against 5 steps in 1 s.
    assert bench_quick.loop_ratio(loop(4.0, 10), loop(1.0, 5), steps=10, rounds=3) == pytest.approx(0.5)


def test_the_record_knows_every_part() -> None:
    import json

    recorded = json.loads(bench_quick.RECORD.read_text())
    assert {name.split()[0] for name in recorded} == set(bench_quick.PARTS)
    assert all(0 < ratio < 100 for ratio in recorded.values())
