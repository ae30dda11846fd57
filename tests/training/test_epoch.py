from __future__ import annotations

import pytest

from alfish.summary.timers import Timers
from tests.training.tiny import bind, make


def test_an_epoch_says_what_happened_in_it():
    bind()
    trainer = make(num_iterations=1000, num_epochs=2, num_steps_per_epoch=40, evaluate=True)
    first, second = trainer
    assert (first.epoch, second.epoch) == (1, 2)
    assert first.iterations == second.iterations == 2
    assert first.env_steps + second.env_steps == trainer.progress.env_steps
    assert first.updates + second.updates == trainer.progress.updates == 4
    assert first.episodes + second.episodes == trainer.progress.episodes
    assert None not in vars(second).values()
    assert second.mean_length == 5
    assert second.mean_return == trainer.result.mean_return
    assert second.evaluation == trainer.result.evaluation


def test_the_seconds_of_an_epoch_add_up_to_its_wall_time(monkeypatch):
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr("alfish.training.trainer.Timers", lambda: Timers(clock))
    bind()
    began, took = 0.0, []
    trainer = make(num_iterations=1000, num_epochs=3, num_steps_per_epoch=200, evaluate=True)
    for epoch in trainer:
        took.append(sum(epoch.seconds.values()))
        assert took[-1] == pytest.approx(now[0] - began, rel=0.05)
        assert {"act", "env", "learn", "eval", "save", "other"} <= set(epoch.seconds)
        now[0] += 1e6  # what the caller does between epochs is no part of them
        began = now[0]
    assert sum(trainer.result.seconds.values()) >= 3e6 + sum(took)
