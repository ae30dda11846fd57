"""What training and evaluation return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean, pstdev


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
    evaluation: EvalResult | None  # the newest one; None without evaluation
    seconds: dict[str, float]  # by phase; the sum is the wall time of the epoch


@dataclass(frozen=True)
class TrainResult:
    """What a whole run came to."""

    iterations: int
    env_steps: int
    updates: int
    episodes: int
    mean_return: float | None  # of the latest training episodes
    evaluation: EvalResult | None  # the last one
    best_score: float | None  # of all evaluations
    seconds: dict[str, float]  # by phase; the sum is the wall time of this session
    stopped_by: str  # 'budget', the name of the stop condition, or of the signal
    root_dir: str
    env_restarts: int = 0  # environments that failed and were built anew, in this session
