"""Evaluation in the course of a run: when, how good, whether that is enough."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.metrics import EpisodeMetrics
from alfish.training.budget import Budget, Milestones
from alfish.training.evaluator import Evaluator, create_eval_environment
from alfish.training.results import EvalResult
from alfish.training.run_summary import make_summary


class PeriodicEvaluation:
    """Evaluates at the end of epochs, at `num_evals` moments, or every `eval_interval` iterations, and at the end.

    Its environments and seeds are its own; training is not disturbed.
    """

    def __init__(self, config: TrainerConfig, budget: Budget, progress: Progress, seeds: Seeds, folder: Path) -> None:
        self.latest: EvalResult | None = None
        self.best_score: float | None = None
        self._config = config
        self._budget = budget
        self._progress = progress
        self._milestones = Milestones(config.num_evals or 0)
        self._env = create_eval_environment(config.num_eval_environments)
        self._evaluator = Evaluator(self._env, seeds.child("eval"))
        self._summary = make_summary(folder / "eval", folder / "eval" / "progress.csv", progress, config)

    def is_due(self, training: EpisodeMetrics) -> bool:
        """Asked once after every iteration, with the metrics of training."""
        config = self._config
        if config.num_epochs is not None:
            due = self._budget.epoch_is_over(self._progress)
        elif config.num_evals is not None:
            due = self._milestones.passed(self._progress.fraction)
        else:
            due = self._progress.iterations % config.eval_interval == 0
        return due or self._budget.is_used_up(self._progress) or self._training_succeeds(training)

    def evaluate(self, algorithm: RLAlgorithm) -> EvalResult:
        """Plays the episodes of one evaluation, writes and remembers the result."""
        result = self._judge(*self._evaluator.evaluate(algorithm, self._config.num_eval_episodes))
        self.latest, self.best_score = result, result.best_score
        self._summary.write(
            {
                "AverageReturn": result.mean_return,
                "StandardDeviationOfReturn": result.std_return,
                "AverageEpisodeLength": result.mean_length,
                "Score": result.score,
                "BestScore": result.best_score,
            }
        )
        self._summary.flush()
        return result

    def is_enough(self, result: EvalResult) -> bool:
        """Whether the stop condition holds."""
        return self._config.stop_condition is not None and bool(self._config.stop_condition(result))

    def state_dict(self) -> dict[str, Any]:
        return {"best_score": self.best_score, "summary": self._summary.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best_score = state["best_score"]
        self._summary.load_state_dict(state["summary"])
        self._milestones.passed(self._progress.fraction)

    def close(self) -> None:
        self._summary.close()
        self._env.close()

    def _training_succeeds(self, training: EpisodeMetrics) -> bool:
        """Whether the returns of training meet the stop condition already."""
        returns = training.latest("AverageReturn")
        if not self._config.evaluate_upon_training_success or not returns:
            return False
        # A condition such as Plateau counts its calls, and only evaluations shall count: a copy is asked.
        condition = copy(self._config.stop_condition)
        assert condition is not None  # TrainerConfig refuses None
        return bool(condition(self._judge(returns, training.latest("AverageEpisodeLength"))))

    def _judge(self, returns: Sequence[float], lengths: Sequence[float]) -> EvalResult:
        best = float("-inf") if self.best_score is None else self.best_score
        result = EvalResult(
            tuple(returns), tuple(map(int, lengths)), self._progress.iterations, self._progress.env_steps, best
        )
        return result.scored(self._config.score_fn)
