"""A picture of how alfish grows, from the figures of workload W8.

    python tools/benchmark.py --workloads W8 --rounds 3 --seconds 60 --json scaling.json
    python tools/plot_scaling.py scaling.json [docs/scaling.png]

Drawn by the interpreter of `tools/peers.py`, which has matplotlib: alfish does not depend on it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import peer_python

PICTURE = Path(__file__).parent.parent / "docs" / "scaling.png"
COLORS = ("#0b6e99", "#c8553d")
INK, FAINT = "#222222", "#d9d9d9"


@dataclass(frozen=True)
class Panel:
    """One diagram: what it shows of which metrics, each of its lines as (x, y) points by name."""

    title: str
    x_label: str
    y_label: str
    lines: dict[str, list[tuple[int, float]]]
    is_speed: bool  # with a logarithmic axis; costs begin at 0


def points(metrics: dict[str, Any], pattern: str, contestant: str, inverse: bool = False) -> list[tuple[int, float]]:
    """The medians of the metrics whose whole name fits; the pattern's group is x. A speed's inverse is in us."""
    found = []
    for name, by_contestant in metrics.items():
        match = re.fullmatch(pattern, name)
        if match and contestant in by_contestant:
            value = by_contestant[contestant]["median"]
            found.append((int(match[1]), 1e6 / value if inverse else value))
    return sorted(found)


def panels(workload: dict[str, Any]) -> list[Panel]:
    """
    Args:
        workload: W8 in the JSON of `tools/benchmark.py`.
    """
    metrics, first = workload["metrics"], workload["reference"]
    backends = {name.partition(" ")[2]: name for name in workload["threads"]}
    return [
        Panel(
            "PPO on CartPole",
            "environments",
            "env steps/s",
            {short: points(metrics, r"(\d+) environments, env steps/s", name) for short, name in backends.items()},
            is_speed=True,
        ),
        Panel(
            "SAC on HalfCheetah",
            "stored rows",
            "milliseconds of a step with its update",
            {
                kind: [(x, y / 1e3) for x, y in points(metrics, rf"(\d+) rows, {kind}, us", first)]
                for kind in ("uniform", "prioritized")
            },
            is_speed=False,
        ),
        Panel(
            "PPO with an LSTM",
            "length of sequences",
            "microseconds of an env step",
            {"LSTM": points(metrics, r"sequences of (\d+), env steps/s", first, inverse=True)},
            is_speed=False,
        ),
    ]


def draw(all_panels: list[Panel], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT})
    figure, axes = pyplot.subplots(1, len(all_panels), figsize=(9.5, 3.4), layout="constrained")
    for axis, panel in zip(axes, all_panels, strict=True):
        _draw(axis, panel)
    figure.savefig(file, dpi=120)


def _draw(axis: Any, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    for color, (name, line) in zip(COLORS, panel.lines.items(), strict=False):
        axis.plot(*zip(*line, strict=True), color=color, marker="o", markersize=4, label=name)
    ticks = sorted({x for line in panel.lines.values() for x, _ in line})
    axis.set_xscale("log", base=2 if ticks[-1] < 1000 else 10)
    axis.set_xticks(ticks, [_short(x) for x in ticks], color=INK)
    axis.xaxis.set_minor_locator(NullLocator())
    if panel.is_speed:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter(lambda value, _: _short(value))
    else:
        axis.set_ylim(0, 1.15 * max(y for line in panel.lines.values() for _, y in line))
    axis.set_xlabel(panel.x_label)
    axis.set_title(panel.title, loc="left", fontsize=10.5, fontweight="bold", pad=20)
    # Beside the axis, and turned, it would take width from the lines.
    axis.text(0, 1.03, panel.y_label, transform=axis.transAxes)
    axis.grid(axis="y", color=FAINT, linewidth=0.7)
    axis.tick_params(which="both", length=0, labelcolor=INK, labelsize=9)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    if len(panel.lines) > 1:
        axis.legend(frameon=False, loc="lower right")


def _short(number: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, help="of `tools/benchmark.py --workloads W8 --json`")
    parser.add_argument("picture", type=Path, nargs="?", default=PICTURE)
    options = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:
        python = str(peer_python())
        os.execv(python, [python, *sys.argv])
    try:
        workload = json.loads(options.json.read_text())["workloads"]["W8"]
    except (OSError, ValueError, KeyError) as error:
        raise SystemExit(
            f"{options.json}: no figures of W8 ({error}). Make it with tools/benchmark.py --workloads W8 --json FILE"
        ) from error
    made = panels(workload)
    for panel in made:
        if not all(panel.lines.values()):
            raise SystemExit(f"{options.json}: nothing for {panel.title!r}. Was the run of W8 interrupted?")
    draw(made, options.picture)
    print(options.picture)


if __name__ == "__main__":
    main()
