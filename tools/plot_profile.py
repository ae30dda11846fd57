"""A picture of where an iteration's time goes, from the profile in a run folder.

    python -m alfish.train --gin_file=ppo.gin --root_dir=RUN TrainerConfig.profiling=True TrainerConfig.evaluate=False
    python tools/plot_profile.py RUN [docs/profile.png] [--title 'PPO on CartPole-v1']

The profile knows who calls whom, but not on whose behalf: as in gprof, the callers of a function share what it takes in
proportion to what their calls took. Calls cost more while they are watched, so parts with many small ones look larger
than they are. Drawn by the interpreter of `tools/peers.py`, which has matplotlib: alfish does not depend on it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pstats
import sys
from collections import defaultdict
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from peers import peer_python

PICTURE = Path(__file__).parent.parent / "docs" / "profile.png"
INK, FAINT = "#222222", "#d9d9d9"
COLORS = {
    "act": "#0b6e99",
    "environment": "#5b8c5a",
    "learn": "#c8553d",
    "other": "#8a8a8a",
}  # by phase, in their order
REST = "the rest"
LEAST = 0.01  # of the whole: smaller parts are among the rest

Function = tuple[str, int, str]  # file, line and name, as in a profile
Place = tuple[str, str]  # a phase, and a part of it

BEGINS = {"train_iter": "learn", "_interact": "act"}  # functions of algorithms that begin a phase
# Files of alfish that tell the part, and the phase if it is not that of the caller. The first that fits counts.
PLACES = {
    "environments/*": ("environment", "steps"),
    "networks/distributions.py": (None, "distributions"),
    "networks/*": (None, "networks"),
    "losses/*": (None, "loss"),
    "algorithms/*_loss.py": (None, "loss"),
    "optimizers/*": (None, "optimizer"),
    "replay/*": (None, "replay"),
    "summary/*": ("other", "metrics and summaries"),
    "training/*evaluat*": ("other", "evaluation"),
    "training/checkpoint*": ("other", "checkpoints"),
}


@cache
def landmark(function: Function) -> tuple[str | None, str | None]:
    """The phase and the part that a function tells; None where it goes on with that of its caller."""
    file, _, name = function
    path = file.rpartition("/alfish/")[2]
    if "run_backward" in name:
        return None, "backward"
    if path.startswith("algorithms/") and name in BEGINS:
        return BEGINS[name], REST
    return next((place for pattern, place in PLACES.items() if fnmatch(path, pattern)), (None, None))


def seconds(stats: dict[Function, Any]) -> dict[Place, float]:
    """What each place takes.

    Args:
        stats: of `pstats.Stats`, by function: calls, calls with recursion, own seconds, seconds with what it calls, and
            the same four by caller.
    """
    outside: dict[Place, float] = {("other", REST): 1.0}  # the loop, which the profile does not see
    shares: dict[Function | None, dict[Place, float]] = {None: outside, **dict.fromkeys(stats, outside)}
    for _ in range(50):  # functions that call each other settle
        for function, (*_, callers) in stats.items():
            phase, part = landmark(function)
            weights: dict[Function | None, float] = {
                caller: times[3] + 1e-9 for caller, times in callers.items() if caller != function
            }
            weights = weights or {None: 1.0}
            total, found = sum(weights.values()), defaultdict[Place, float](float)
            for caller, weight in weights.items():
                for (its_phase, its_part), share in shares[caller].items():
                    found[phase or its_phase, part or its_part] += share * weight / total
            shares[function] = found
    taken = defaultdict[Place, float](float)
    for function, (_, _, own, *_) in stats.items():
        for place, share in shares[function].items():
            taken[place] += share * own
    return dict(taken)


def rows(taken: dict[Place, float]) -> dict[str, list[tuple[str, float]]]:
    """By phase: its parts, the largest first, the rest last."""
    least = LEAST * sum(taken.values())
    parts: dict[str, list[tuple[str, float]]] = {}
    for phase in COLORS:
        its = {part: time for (each, part), time in taken.items() if each == phase}
        large = {part: time for part, time in its.items() if part != REST and time >= least}
        ordered = sorted(large.items(), key=lambda each: -each[1])
        rest = sum(its.values()) - sum(large.values())
        parts[phase] = [*ordered, (REST, rest)] if rest >= least or not large else ordered
    return {phase: each for phase, each in parts.items() if sum(time for _, time in each) > 0}


def draw(parts: dict[str, list[tuple[str, float]]], title: str, file: Path) -> None:
    """A bar of the phases, and below it each part where it is in that bar.

    Args:
        parts: of `rows`, in seconds of one iteration.
        title: what was profiled.
        file: the picture.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    number, whole = sum(map(len, parts.values())), sum(time for each in parts.values() for _, time in each)
    pyplot.rcParams.update({"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT})
    figure, axis = pyplot.subplots(figsize=(9, 1.3 + 0.3 * number), layout="constrained")
    left, labels = 0.0, [""]
    for phase, each in parts.items():
        length = sum(time for _, time in each)
        axis.barh(0, length * 1e3, left=left * 1e3, color=COLORS[phase], height=0.95)
        words = f"{phase} {length / whole:.0%}"
        if length / whole > 0.012 * len(words):
            axis.text((left + length / 2) * 1e3, 0, words, color="white", ha="center", va="center", fontweight="bold")
        for part, time in each:
            row = len(labels)
            axis.barh(row, time * 1e3, left=left * 1e3, color=COLORS[phase], height=0.62)
            _label(axis, row, left, time, whole)
            labels.append(phase if len(each) == 1 else f"{phase}: {part}")
            left += time
    axis.set_yticks(range(len(labels)), labels)
    axis.set(xlim=(0, whole * 1e3), ylim=(number + 0.6, -0.6), xlabel="milliseconds of an iteration, while profiled")
    axis.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    axis.grid(axis="x", color=FAINT, linewidth=0.7)
    axis.set_axisbelow(True)
    axis.tick_params(length=0, labelcolor=INK)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    figure.savefig(file, dpi=110)


def _label(axis: Any, row: int, left: float, time: float, whole: float) -> None:
    """Beside the bar, where there is more room."""
    is_left = left + time > 0.9 * whole
    end = left if is_left else left + time
    axis.annotate(
        f"{time / whole:.0%}",
        (end * 1e3, row),
        xytext=(-4 if is_left else 4, 0),
        textcoords="offset points",
        ha="right" if is_left else "left",
        va="center",
        fontsize=9,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a run with TrainerConfig.profiling")
    parser.add_argument("picture", type=Path, nargs="?", default=PICTURE)
    parser.add_argument("--title", help="otherwise the name of the folder")
    options = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:
        python = str(peer_python())
        os.execv(python, [python, *sys.argv])
    file = options.run / "profile" / "profile.pstats"
    if not file.exists():
        raise SystemExit(f"{file}: no such file. A run writes it with TrainerConfig.profiling=True")
    stats: dict[Function, Any] = pstats.Stats(str(file)).stats  # type: ignore[attr-defined]
    number = max((calls for (_, _, name), (calls, *_) in stats.items() if name == "train_iter"), default=1)
    taken = {place: time / number for place, time in seconds(stats).items()}
    draw(rows(taken), options.title or options.run.resolve().name, options.picture)
    print(options.picture)


if __name__ == "__main__":
    main()
