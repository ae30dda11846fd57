"""What training and evaluation return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any


@dataclass(frozen=True)
class EvalResult:
    """The episodes of one evaluation."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    iteration: int  # of the evaluated parameters
    env_steps: int
    best_score: float  # of the run so far, this evaluation included
    score: float = float("nan")  # what "best" compares: the mean return, or what `TrainerConfig.score_fn` says

    @property
    def mean_return(self) -> float:
        return fmean(self.returns)

    @property
    def std_return(self) -> float:
        return pstdev(self.returns)

    @property
    def mean_length(self) -> float:
        return fmean(self.lengths)

    def scored(self, score_fn: Callable[[EvalResult], float] | None) -> EvalResult:
        """With its score, and the best score if it is a new one; a score of NaN never is."""
        score = self.mean_return if score_fn is None else float(score_fn(self))
        return replace(self, score=score, best_score=max(self.best_score, score))

    def summaries(self) -> dict[str, float]:
        return {
            "AverageReturn": self.mean_return,
            "StandardDeviationOfReturn": self.std_return,
            "AverageEpisodeLength": self.mean_length,
        }

    def facts(self) -> dict[str, Any]:
        """For `run.json`."""
        return {
            "mean_return": self.mean_return,
            "std_return": self.std_return,
            "episodes": len(self.returns),
            "iteration": self.iteration,
            "env_steps": self.env_steps,
        }

    def closing_words(self) -> str:
        return f"mean return {self.mean_return:.1f} +- {self.std_return:.1f} over {len(self.returns)} episodes"

    @property
    def moment(self) -> str:
        return f"at {self.env_steps:,} steps" if self.env_steps else f"at iteration {self.iteration:,}"

    def __str__(self) -> str:
        return f"mean return {self.mean_return:.2f} +- {self.std_return:.2f}"


@dataclass(frozen=True)
class SupervisedEvalResult:
    """One evaluation on test data."""

    metrics: Mapping[str, float]  # what `evaluate()` and `eval_uncertainty()` of the algorithm said
    iteration: int  # the evaluated parameters were trained for so many epochs
    best_score: float  # of the run so far, this evaluation included
    score: float  # what "best" compares: what the algorithm says, or `TrainerConfig.score_fn`

    def scored(self, score_fn: Callable[[SupervisedEvalResult], float] | None) -> SupervisedEvalResult:
        """With its score, and the best score if it is a new one; a score of NaN never is."""
        score = self.score if score_fn is None else float(score_fn(self))
        return replace(self, score=score, best_score=max(self.best_score, score))

    def summaries(self) -> dict[str, float]:
        return dict(self.metrics)

    def facts(self) -> dict[str, Any]:
        """For `run.json`."""
        return {"metrics": dict(self.metrics), "iteration": self.iteration}

    def closing_words(self) -> str:
        return str(self)

    @property
    def moment(self) -> str:
        return f"after epoch {self.iteration:,}"

    def __str__(self) -> str:
        return metrics_text(self.metrics)


AnyEvalResult = EvalResult | SupervisedEvalResult


def metrics_text(metrics: Mapping[str, float]) -> str:
    """`accuracy 0.984, loss 0.0551`."""
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in metrics.items())


@dataclass(frozen=True)
class EpochStats:
    """What happened in one epoch."""

    epoch: int  # counts from 1
    iterations: int  # of this epoch, like all numbers below
    env_steps: int
    updates: int
    episodes: int
    mean_return: float | None  # of the latest training episodes; None before the first one ended
    mean_length: float | None
    loss: float | None  # average of the last 100 updates; None before the first one
    evaluation: AnyEvalResult | None  # the newest one; None without evaluation
    seconds: dict[str, float]  # by phase; the sum is the wall time of the epoch


@dataclass(frozen=True)
class TrainResult:
    """What a whole run came to."""

    iterations: int
    env_steps: int
    updates: int
    episodes: int
    mean_return: float | None  # of the latest training episodes
    evaluation: AnyEvalResult | None  # the last one
    best_score: float | None  # of all evaluations
    seconds: dict[str, float]  # by phase; the sum is the wall time of this session
    stopped_by: str  # 'budget', the name of the stop condition, or of the signal
    root_dir: str
    env_restarts: int = 0  # environments that failed and were built anew, in this session
