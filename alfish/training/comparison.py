"""Two runs side by side: what was configured differently, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from alfish.config.report import read_operative
from alfish.errors import CheckpointError
from alfish.training.inspection import RunFacts, clock, inspect_run

Pair = tuple[str | None, str | None]

_LONGEST = 60


@dataclass(frozen=True)
class Comparison:
    """Of two runs."""

    runs: tuple[RunFacts, RunFacts]
    options: dict[str, Pair]  # that differ, by key; None: the run did not use it
    software: dict[str, Pair]  # versions that differ

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        results = [
            {key: value for key, value in asdict(run).items() if key not in ("checkpoints", "versions")}
            for run in self.runs
        ]
        return {"runs": results, "options": self.options, "software": self.software}


def compare_runs(first: Path, second: Path) -> Comparison:
    """Compares the options that were used, defaults included, and the results."""
    one, other = inspect_run(first), inspect_run(second)
    options = _differences(_operative(first), _operative(second))
    return Comparison((one, other), options, _differences(_software(one), _software(other)))


def comparison_text(comparison: Comparison) -> str:
    """For people: a column per run."""
    one, other = (_results(run) for run in comparison.runs)
    rows = [(name, one[name], other[name]) for name in one]
    rows.append(("", "", ""))
    for key, (left, right) in {**comparison.options, **comparison.software}.items():
        rows.append((key, _shortened(left), _shortened(right)))
    if not comparison.options:
        rows.append(("no option differs", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows)


def _results(run: RunFacts) -> dict[str, str]:
    return {
        "": run.folder,
        "trained": f"{run.algorithm} on {run.environment}" if run.algorithm else "unknown",
        "state": run.state.partition(":")[0],
        "seed": str(run.seed),
        "environment steps": "-" if run.is_supervised else f"{run.env_steps:,}",
        "iterations": f"{run.iterations:,}",
        "time": "-" if run.seconds is None else clock(run.seconds),
        "last evaluation": _shortened(str(run.evaluation or "-").removeprefix("mean return ")),
        "best score": run.score_text() or "-",
    }


def _operative(folder: Path) -> dict[str, str]:
    file = folder.expanduser() / "operative.gin"
    try:
        return read_operative(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}. A run writes it when it starts") from error


def _software(run: RunFacts) -> dict[str, str]:
    others = {"python": run.python, "git revision": run.git_revision}
    return {**run.versions, **{name: value for name, value in others.items() if value is not None}}


def _differences(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, Pair]:
    keys = sorted({*one, *other})
    return {key: (one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)}


def _shortened(value: str | None) -> str:
    if value is None:
        return "-"
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}..."
