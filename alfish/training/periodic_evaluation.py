"""Evaluation in the course of a run: when, how good, whether that is enough."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.metrics import EpisodeMetrics
from alfish.training.async_evaluator import AsyncEvaluator
from alfish.training.budget import Budget, Milestones
from alfish.training.evaluator import Evaluated, InProcessEvaluator, RequestedEvaluator
from alfish.training.results import EvalResult
from alfish.training.run_summary import make_summary
from alfish.training.stop_condition import remembers
from alfish.training.worker_config import WorkerConfig

_SECONDS_BETWEEN_WORDS = 10.0


class PeriodicEvaluation:
    """Evaluates at the end of epochs, at `num_evals` moments, or every `eval_interval` iterations, and at the end.

    Its environments and seeds are its own; training is not disturbed. With `async_eval` a worker process plays, and
    results come later; they are written against the moment that their parameters are of.

    Args:
        config: the options of the run.
        budget: the end of the run.
        progress: of the run.
        seeds: of the run.
        folder: of the run.
        algorithm: to be evaluated.
        from_gin: `config` was made by gin, rather than in Python.
    """

    def __init__(
        self,
        config: TrainerConfig,
        budget: Budget,
        progress: Progress,
        seeds: Seeds,
        folder: Path,
        algorithm: RLAlgorithm,
        from_gin: bool,
    ) -> None:
        self.latest: EvalResult | None = None
        self.best_score: float | None = None
        self._config = config
        self._budget = budget
        self._progress = progress
        self._milestones = Milestones(config.num_evals or 0)
        self._is_owed = False  # the run was ended while an evaluation was under way
        self._moment = Progress()  # that the result which is written is of
        self._summary = make_summary(folder / "eval", folder / "eval" / "progress.csv", self._moment, config)
        self._evaluator: RequestedEvaluator
        if config.async_eval:
            setup = WorkerConfig.of(config, from_gin, "TrainerConfig.async_eval")
            self._evaluator = AsyncEvaluator(setup, algorithm, seeds, config.eval_timeout)
        else:
            self._evaluator = InProcessEvaluator(config, seeds)

    def is_due(self, training: EpisodeMetrics) -> bool:
        """Asked once after every iteration, with the metrics of training."""
        config = self._config
        if config.num_epochs is not None:
            due = self._budget.epoch_is_over(self._progress)
        elif config.num_evals is not None:
            due = self._milestones.passed(self._progress.fraction)
        else:
            due = self._progress.iterations % config.eval_interval == 0
        due, self._is_owed = due or self._is_owed, False
        return due or self._budget.is_used_up(self._progress) or self._training_succeeds(training)

    def request(self, algorithm: RLAlgorithm) -> None:
        """Asks for an evaluation of the parameters as they are now."""
        model: dict[str, Any] | None = None
        if self._config.async_eval and self._config.keep_best:  # when the result comes, training has gone on
            model = {name: value.detach().cpu().clone() for name, value in algorithm.state_dict().items()}
        self._evaluator.submit(self._now(model), algorithm)

    def collect(self) -> Iterator[tuple[Evaluated, EvalResult, bool]]:
        """What was finished since the last time, written and remembered, and whether it is better than all before."""
        for finished in self._evaluator.take():
            before = self.best_score
            result = self._judge(finished.of, finished.returns, finished.lengths)
            self.latest, self.best_score = result, result.best_score
            self._write(result)
            yield finished.of, result, before is None or result.score > before

    def wait(self) -> Iterator[str]:
        """Waits for what is still to come, `eval_timeout` at most. Yields several times a second, with what to say."""
        began = time.monotonic()
        next_words = began
        while (pending := self._evaluator.pending) is not None:
            now = time.monotonic()
            if now - began > self._config.eval_timeout:
                self._evaluator.give_up()
                yield (
                    f"the evaluation of iteration {pending.iteration} is not waited for any longer. Raise "
                    f"TrainerConfig.eval_timeout (now {self._config.eval_timeout:g} s) if it is only slow"
                )
                return
            words = ""
            if now >= next_words:
                words = f"waiting for the evaluation of iteration {pending.iteration}, since {now - began:.0f} s"
                next_words = now + _SECONDS_BETWEEN_WORDS
            yield words
            self._evaluator.wait()

    def wait_until_ready(self) -> None:
        """Waits until it is known which bindings evaluation uses."""
        self._evaluator.wait_until_ready()

    def is_enough(self, result: EvalResult) -> bool:
        """Whether the stop condition holds."""
        return self._config.stop_condition is not None and bool(self._config.stop_condition(result))

    def state_dict(self) -> dict[str, Any]:
        condition = self._config.stop_condition
        return {
            "best_score": self.best_score,
            "summary": self._summary.state_dict(),
            "is_owed": self._is_owed or self._evaluator.pending is not None,
            "stop_condition": (type(condition).__name__, condition.state_dict() if remembers(condition) else None),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best_score = state["best_score"]
        self._is_owed = state.get("is_owed", False)
        self._summary.load_state_dict(state["summary"])
        self._milestones.passed(self._progress.fraction)
        name, known = state.get("stop_condition", (None, None))
        condition = self._config.stop_condition
        if known is not None and remembers(condition) and name == type(condition).__name__:  # else it begins anew
            condition.load_state_dict(known)

    def close(self) -> None:
        self._evaluator.close()
        self._summary.close()

    def _write(self, result: EvalResult) -> None:
        self._moment.iterations, self._moment.env_steps = result.iteration, result.env_steps
        self._summary.write(
            {
                "AverageReturn": result.mean_return,
                "StandardDeviationOfReturn": result.std_return,
                "AverageEpisodeLength": result.mean_length,
                "Score": result.score,
                "BestScore": result.best_score,
                **self._evaluator.counts,
            }
        )
        self._summary.flush()

    def _training_succeeds(self, training: EpisodeMetrics) -> bool:
        """Whether the returns of training meet the stop condition already, and no evaluation looks into it."""
        returns = training.latest("AverageReturn")
        if not self._config.evaluate_upon_training_success or not returns or self._evaluator.pending is not None:
            return False
        # A condition such as Plateau counts its calls, and only evaluations shall count: a copy is asked.
        condition = copy(self._config.stop_condition)
        assert condition is not None  # TrainerConfig refuses None
        return bool(condition(self._judge(self._now(), returns, training.latest("AverageEpisodeLength"))))

    def _now(self, model: dict[str, Any] | None = None) -> Evaluated:
        return Evaluated(self._progress.iterations, self._progress.env_steps, self._progress.updates, model)

    def _judge(self, evaluated: Evaluated, returns: Sequence[float], lengths: Sequence[float]) -> EvalResult:
        best = float("-inf") if self.best_score is None else self.best_score
        result = EvalResult(tuple(returns), tuple(map(int, lengths)), evaluated.iteration, evaluated.env_steps, best)
        return result.scored(self._config.score_fn)
