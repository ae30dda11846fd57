"""What `tools/plot_scaling.py` reads from the figures of W8."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import plot_scaling
import pytest
from workloads import scaling


def measured(value: float) -> dict[str, Any]:
    return {"alfish auto": {"median": value}}


METRICS = {
    "1 environments, env steps/s": {"alfish auto": {"median": 10.0}, "alfish fastest": {"median": 20.0}},
    "16 environments, env steps/s": {"alfish auto": {"median": 50.0}, "alfish fastest": {"median": 90.0}},
    "sequences of 4, env steps/s": measured(1000.0),
    "10000 rows, uniform, us": measured(5000.0),
    "1000000 rows, uniform, us": measured(5100.0),
    "10000 rows, prioritized, us": measured(6000.0),
}
W8 = {"reference": "alfish auto", "threads": {"alfish auto": 1, "alfish fastest": 1}, "metrics": METRICS}


def test_every_figure_is_in_its_line() -> None:
    environments, rows, lengths = (panel.lines for panel in plot_scaling.panels(W8))
    assert environments == {"auto": [(1, 10.0), (16, 50.0)], "fastest": [(1, 20.0), (16, 90.0)]}
    assert rows == {"uniform": [(10_000, 5.0), (1_000_000, 5.1)], "prioritized": [(10_000, 6.0)]}  # ms
    assert lengths == {"LSTM": [(4, 1000.0)]}  # us


def test_it_reads_the_names_that_w8_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "measured", lambda *_: {scaling.SPEED: {"wall": 8.0, "processor": 8.0}})
    rows = {
        f"{number} rows, {kind}, us": {"wall": 8.0} for number in scaling.ROWS for kind in ("uniform", "prioritized")
    }
    monkeypatch.setattr(scaling, "stored_rows", lambda: rows)
    metrics = scaling.measure(scaling.Request("W8", "auto", 1, 1.0, ""))
    figures = {name: {"alfish auto": {"median": each["wall"]}} for name, each in metrics.items()}
    panels = plot_scaling.panels({**W8, "threads": {"alfish auto": 1}, "metrics": figures})
    found = [[x for x, _ in line] for panel in panels for line in panel.lines.values()]
    assert found == [list(scaling.ENVIRONMENTS), *[list(scaling.ROWS)] * 2, list(scaling.LENGTHS)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps({"workloads": {}}), "no figures of W8"),
        ("", "no figures of W8"),
        (json.dumps({"workloads": {"W8": {**W8, "metrics": {}}}}), "nothing for 'PPO on CartPole'"),
    ],
)
def test_a_file_without_them_is_refused(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    file.write_text(text)
    monkeypatch.setattr(plot_scaling.importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(sys, "argv", ["plot_scaling.py", str(file), str(tmp_path / "scaling.png")])
    with pytest.raises(SystemExit, match=message):
        plot_scaling.main()
    assert not (tmp_path / "scaling.png").exists()
