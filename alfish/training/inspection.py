"""Looking into a run folder: what was trained, how far it came, and what the checkpoints hold."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alfish.errors import CheckpointError
from alfish.training.checkpoint import Checkpoint
from alfish.training.option_history import OptionChange, OptionHistory, change_lines
from alfish.training.results import metrics_text
from alfish.training.run_folder import RunFolder


@dataclass(frozen=True)
class CheckpointFacts:
    """What a checkpoint says about itself."""

    iteration: int
    env_steps: int | None
    updates: int | None
    sizes: dict[str, int]  # bytes, by part: model, optimizer, state, replay
    is_best: bool
    is_model_only: bool  # good for play and evaluation, not for going on
    damage: str | None  # None: all files are as the manifest says

    @classmethod
    def of(cls, checkpoint: Checkpoint, best: int | None) -> CheckpointFacts:
        try:
            manifest = checkpoint.manifest
        except CheckpointError:
            manifest = {}
        sizes = {file.stem: file.stat().st_size for file in sorted(checkpoint.path.glob("*.pt"))}
        return cls(
            iteration=checkpoint.iteration,
            env_steps=manifest.get("env_steps"),
            updates=manifest.get("updates"),
            sizes=sizes,
            is_best=checkpoint.iteration == best,
            is_model_only=bool(manifest.get("model_only")),
            damage=checkpoint.damage(),
        )


@dataclass(frozen=True)
class EvaluationFacts:
    """One row of `eval/progress.csv`."""

    iteration: int
    env_steps: int
    mean_return: float
    std_return: float

    def __str__(self) -> str:
        steps = f"{self.env_steps:,} environment steps"
        return f"mean return {self.mean_return:.2f} +- {self.std_return:.2f} at {steps}"


@dataclass(frozen=True)
class SupervisedEvaluationFacts:
    """One row of `eval/progress.csv` of a run over data."""

    iteration: int
    metrics: dict[str, float]

    def __str__(self) -> str:
        return f"{metrics_text(self.metrics)} after epoch {self.iteration:,}"


@dataclass(frozen=True)
class RunFacts:
    """What a run folder says about a run; None for what it does not."""

    folder: str
    ml_type: str  # 'rl' or 'sl'
    algorithm: str | None
    environment: str | None  # or the data
    state: str
    seed: int | None
    budget: str | None
    started: str | None
    ended: str | None
    iterations: int
    env_steps: int
    seconds: float | None  # of training, over all sessions
    evaluation: EvaluationFacts | SupervisedEvaluationFacts | None  # the newest
    best_score: float | None
    python: str | None
    versions: dict[str, str]
    git_revision: str | None
    init_from: dict[str, Any] | None  # whose parameters it began with
    changes: dict[int, list[OptionChange]]  # of options, by the iteration that the run went on from with them
    checkpoints: tuple[CheckpointFacts, ...]

    @property
    def is_supervised(self) -> bool:
        return self.ml_type == "sl"

    def score_text(self) -> str | None:
        """The best score; one of supervised learning, such as an accuracy, with more digits."""
        if self.best_score is None:
            return None
        return f"{self.best_score:.4g}" if self.is_supervised else f"{self.best_score:.2f}"


def inspect_run(root_dir: Path) -> RunFacts:
    """Reads a run folder, also one that is in use. Every file of every checkpoint is compared with its checksum."""
    folder = RunFolder.existing(root_dir)
    run = folder.read_run()
    training, evaluations = _rows(folder.path / "progress.csv"), _rows(folder.path / "eval" / "progress.csv")
    best = _best(folder)
    checkpoints = tuple(CheckpointFacts.of(checkpoint, best) for checkpoint in folder.checkpoints.all())
    newest = training[-1] if training else {}
    saved = [checkpoint for checkpoint in checkpoints if not checkpoint.is_model_only]
    return RunFacts(
        folder=str(folder.path),
        ml_type=str(run.get("ml_type", "rl")),
        algorithm=run.get("algorithm"),
        environment=run.get("environment", run.get("data")),
        state=_state(folder, run),
        seed=run.get("seed"),
        budget=run.get("budget"),
        started=run.get("started"),
        ended=run.get("ended"),
        iterations=max([int(newest.get("iterations", 0)), *(each.iteration for each in saved)]),
        env_steps=max([int(newest.get("env_steps", 0)), *(each.env_steps or 0 for each in saved)]),
        seconds=newest.get("seconds"),
        evaluation=_evaluation(evaluations[-1]) if evaluations else None,
        best_score=evaluations[-1].get("Metrics/BestScore") if evaluations else None,
        python=run.get("python"),
        versions=run.get("versions", {}),
        git_revision=run.get("git_revision"),
        init_from=run.get("init_from"),
        changes=OptionHistory(folder).changes(run.get("seed")),
        checkpoints=checkpoints,
    )


def inspection_text(facts: RunFacts) -> str:
    """For people."""
    lines = [
        ("run", facts.folder),
        ("trained", f"{facts.algorithm} on {facts.environment}" if facts.algorithm else "unknown"),
        ("state", facts.state),
        ("progress", f"{_progress(facts)}{_time(facts.seconds)}"),
        ("budget", facts.budget),
        ("evaluation", facts.evaluation),
        ("best score", facts.score_text()),
        ("seed", facts.seed),
        ("started", facts.started),
        ("ended", facts.ended),
        ("versions", ", ".join(f"{name} {version}" for name, version in _versions(facts).items())),
        ("revision", facts.git_revision),
        ("began with", _transfer_words(facts.init_from)),
    ]
    text = [f"{name:<11} {value}" for name, value in lines if value is not None]
    return "\n".join([*text, "", *_checkpoint_table(facts.checkpoints), *_change_paragraphs(facts.changes)])


def _progress(facts: RunFacts) -> str:
    if facts.is_supervised:
        return f"{facts.iterations:,} epochs"
    return f"{facts.iterations:,} iterations, {facts.env_steps:,} environment steps"


def _transfer_words(init_from: dict[str, Any] | None) -> str | None:
    if init_from is None:
        return None
    return f"{len(init_from['loaded'])} tensors of {init_from['run']}, iteration {init_from['checkpoint']:,}"


def _change_paragraphs(changes: dict[int, list[OptionChange]]) -> list[str]:
    return [f"\noptions changed at iteration {at:,}:{change_lines(each)}" for at, each in changes.items()]


def _checkpoint_table(checkpoints: tuple[CheckpointFacts, ...]) -> list[str]:
    if not checkpoints:
        return ["no checkpoints"]
    rows = [("checkpoint", "env steps", "updates", "size", "holds", "")]
    for each in checkpoints:
        remarks = [each.damage or "whole", *(["best"] if each.is_best else [])]
        remarks += ["for play and evaluation only"] if each.is_model_only else []
        parts = ", ".join(f"{part} {_size(size)}" for part, size in each.sizes.items())
        steps, updates = ("?" if count is None else f"{count:,}" for count in (each.env_steps, each.updates))
        size = _size(sum(each.sizes.values()))
        rows.append((f"{each.iteration:,}", steps, updates, size, parts, "; ".join(remarks)))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for *numbers, parts, remark in rows:
        cells = [f"{number:>{width}}" for number, width in zip(numbers, widths[:4], strict=True)]
        lines.append("  ".join([*cells, f"{parts:<{widths[4]}}", remark]).rstrip())
    return lines


def _best(folder: RunFolder) -> int | None:
    try:
        return folder.checkpoints.find("best").iteration
    except CheckpointError:
        return None


def _state(folder: RunFolder, run: dict[str, Any]) -> str:
    state = str(run.get("state", "unknown"))
    if state == "running" and folder.is_in_use() is False:
        return "killed: it was running and did not end, and no process holds the folder"
    return state


def _rows(file: Path) -> list[dict[str, float]]:
    """The rows of a table, of numbers; a row that was cut off in the middle is left out."""
    if not file.is_file():
        return []
    rows = []
    with file.open(newline="") as stream:
        for row in csv.DictReader(stream):
            try:
                rows.append({name: float(value) for name, value in row.items() if value})
            except (TypeError, ValueError):
                continue
    return rows


def _evaluation(row: dict[str, float]) -> EvaluationFacts | SupervisedEvaluationFacts:
    if "Metrics/AverageReturn" not in row:
        metrics = {name.removeprefix("Metrics/"): value for name, value in row.items() if name.startswith("Metrics/")}
        for score in ("Score", "BestScore"):
            metrics.pop(score, None)
        return SupervisedEvaluationFacts(int(row["iterations"]), metrics)
    return EvaluationFacts(
        iteration=int(row["iterations"]),
        env_steps=int(row["env_steps"]),
        mean_return=row["Metrics/AverageReturn"],
        std_return=row["Metrics/StandardDeviationOfReturn"],
    )


def _versions(facts: RunFacts) -> dict[str, str]:
    python = {} if facts.python is None else {"Python": facts.python}
    return {**facts.versions, **python}


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f" in {clock(seconds)}"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _size(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
