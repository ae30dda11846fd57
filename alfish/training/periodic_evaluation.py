"""Evaluation in the course of a run: when, how good, whether that is enough."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from alfish.algorithms.trainer_config import TrainerConfig
from alfish.progress import Progress
from alfish.summary.logger import GuardedLogger
from alfish.summary.metrics import EpisodeMetrics
from alfish.training.budget import Milestones
from alfish.training.evaluator import Evaluated, Finished, FinishedEvaluation
from alfish.training.results import AnyEvalResult
from alfish.training.run_summary import make_summary
from alfish.training.stop_condition import remembers
from alfish.training.task import Task

_SECONDS_BETWEEN_WORDS = 10.0


class PeriodicEvaluation:
    """Evaluates at the end of epochs, at `num_evals` moments, or every `eval_interval` iterations, and at the end.

    Training is not disturbed. With `async_eval` a worker process plays, and results come later; they are written
    against the moment that their parameters are of.

    Args:
        config: the options of the run.
        task: says how to evaluate, and when the run ends.
        progress: of the run.
        folder: of the run.
        loggers: of the run.
    """

    def __init__(
        self,
        config: TrainerConfig,
        task: Task,
        progress: Progress,
        folder: Path,
        loggers: Sequence[GuardedLogger] = (),
    ) -> None:
        self.latest: AnyEvalResult | None = None
        self.best_score: float | None = None
        self._config = config
        self._task = task
        self._budget = task.budget
        self._progress = progress
        self._milestones = Milestones(config.num_evals or 0)
        self._is_owed = False  # the run was ended while an evaluation was under way
        self._moment = Progress()  # that the result which is written is of
        table = folder / "eval" / "progress.csv"
        self._summary = make_summary(folder / "eval", table, self._moment, config, loggers, "eval/")
        self._evaluator = task.make_evaluator()

    def is_due(self) -> bool:
        """Asked once after every iteration."""
        config = self._config
        if config.num_epochs is not None:
            due = self._budget.epoch_is_over(self._progress)
        elif config.num_evals is not None:
            due = self._milestones.passed(self._progress.fraction)
        else:
            due = self._progress.iterations % config.eval_interval == 0
        due, self._is_owed = due or self._is_owed, False
        return due or self._budget.is_used_up(self._progress) or self._training_succeeds()

    def request(self) -> None:
        """Asks for an evaluation of the parameters as they are now."""
        algorithm = self._task.algorithm
        model: dict[str, Any] | None = None
        if self._task.evaluates_later and self._config.keep_best:  # when the result comes, training has gone on
            model = {name: value.detach().cpu().clone() for name, value in algorithm.state_dict().items()}
        self._evaluator.submit(self._now(model), algorithm)

    def collect(self) -> Iterator[tuple[Evaluated, AnyEvalResult, bool]]:
        """What was finished since the last time, written and remembered, and whether it is better than all before."""
        for finished in self._evaluator.take():
            before = self.best_score
            result = self._judge(finished)
            self.latest, self.best_score = result, result.best_score
            self._write(finished.of, result)
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

    def is_enough(self, result: AnyEvalResult) -> bool:
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

    def _write(self, evaluated: Evaluated, result: AnyEvalResult) -> None:
        self._moment.iterations, self._moment.env_steps = evaluated.iteration, evaluated.env_steps
        scores = {"Score": result.score, "BestScore": result.best_score}
        self._summary.write({**result.summaries(), **scores, **self._evaluator.counts})
        self._summary.flush()

    def _training_succeeds(self) -> bool:
        """Whether the returns of training meet the stop condition already, and no evaluation looks into it."""
        if not self._config.evaluate_upon_training_success or self._evaluator.pending is not None:
            return False
        training = self._task.algorithm.metrics
        assert isinstance(training, EpisodeMetrics)  # TrainerConfig refuses the option where there are no episodes
        returns, lengths = training.latest("AverageReturn"), training.latest("AverageEpisodeLength")
        if not returns:
            return False
        # A condition such as Plateau counts its calls, and only evaluations shall count: a copy is asked.
        condition = copy(self._config.stop_condition)
        assert condition is not None  # TrainerConfig refuses None
        return bool(condition(self._judge(Finished(self._now(), tuple(returns), tuple(map(int, lengths))))))

    def _now(self, model: dict[str, Any] | None = None) -> Evaluated:
        return Evaluated(self._progress.iterations, self._progress.env_steps, self._progress.updates, model)

    def _judge(self, finished: FinishedEvaluation) -> AnyEvalResult:
        best = float("-inf") if self.best_score is None else self.best_score
        return finished.result(best).scored(self._config.score_fn)
