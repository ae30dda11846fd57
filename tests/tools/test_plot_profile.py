"""What `tools/plot_profile.py` reads from a profile."""

from __future__ import annotations

import pstats
import sys
from pathlib import Path
from typing import Any

import plot_profile
import pytest

from tests.trained_run import CARTPOLE, train_run

ITERATION = ("/somewhere/alfish/algorithms/rl_algorithm.py", 1, "train_iter")
INTERACT = ("/somewhere/alfish/algorithms/rl_algorithm.py", 2, "_interact")
STEP = ("/somewhere/alfish/environments/sync.py", 3, "step")
FORWARD = ("/somewhere/alfish/networks/layers.py", 4, "forward")
CALL = ("/somewhere/torch/nn/module.py", 5, "_call_impl")
LINEAR = ("~", 0, "<built-in method linear>")
BACKWARD = ("~", 0, "<method 'run_backward'>")


def entry(own: float, **callers: tuple[Any, float]) -> tuple[Any, ...]:
    """A row of a profile, with the seconds that the calls of each caller took."""
    return 1, 1, own, 0.0, {function: (1, 1, 0.0, seconds) for function, seconds in callers.values()}


def test_the_time_is_where_it_was_called_for() -> None:
    taken = plot_profile.seconds(
        {
            LINEAR: entry(8.0, only=(FORWARD, 8.0)),
            FORWARD: entry(4.0, only=(CALL, 12.0)),
            # Layers are modules, so the call is within itself: the inner ones are for whom the outer ones are.
            CALL: entry(0.0, acting=(INTERACT, 3.0), learning=(ITERATION, 9.0), inner=(FORWARD, 10.0)),
            STEP: entry(5.0, only=(INTERACT, 5.0)),
            BACKWARD: entry(7.0, only=(ITERATION, 7.0)),
            INTERACT: entry(1.0, only=(ITERATION, 9.0)),
            ITERATION: entry(2.0),
        }
    )
    assert {place: time for place, time in taken.items() if time > 1e-6} == pytest.approx(
        {
            ("act", "networks"): 3.0,
            ("learn", "networks"): 9.0,
            ("environment", "steps"): 5.0,
            ("learn", "backward"): 7.0,
            ("act", "the rest"): 1.0,
            ("learn", "the rest"): 2.0,
        },
        rel=1e-3,
    )


def test_small_parts_are_among_the_rest() -> None:
    taken = {("learn", "loss"): 10.0, ("learn", "backward"): 85.0, ("learn", "replay"): 0.5, ("learn", "the rest"): 4.0}
    parts = plot_profile.rows({**taken, ("environment", "steps"): 20.0})
    assert parts == {
        "environment": [("steps", 20.0)],
        "learn": [("backward", 85.0), ("loss", 10.0), ("the rest", pytest.approx(4.5))],
    }


def test_a_run_of_alfish_has_all_phases(tmp_path: Path) -> None:
    run = train_run(tmp_path, CARTPOLE + "TrainerConfig.profiling = True\n")
    stats: dict[Any, Any] = pstats.Stats(str(run / "profile" / "profile.pstats")).stats  # type: ignore[attr-defined]
    taken = plot_profile.seconds(stats)
    assert sum(taken.values()) == pytest.approx(sum(own for _, _, own, *_ in stats.values()))
    wanted = [("act", "networks"), ("act", "distributions"), ("environment", "steps"), ("other", "evaluation")]
    wanted += [("learn", part) for part in ("networks", "loss", "backward", "optimizer")]
    assert all(taken.get(place, 0.0) > 0.0 for place in wanted)


def test_a_folder_without_a_profile_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plot_profile.importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(sys, "argv", ["plot_profile.py", str(tmp_path), str(tmp_path / "profile.png")])
    with pytest.raises(SystemExit, match=r"profile\.pstats: no such file.*TrainerConfig\.profiling=True"):
        plot_profile.main()
