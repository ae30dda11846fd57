"""What a run learns from, and who learns: environments and a reinforcement learner, or data and a supervised one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from alfish.algorithms.ownership import Ownership
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.supervised.supervised_algorithm import SupervisedAlgorithm
from alfish.progress import Progress
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.budget import Budget
from alfish.training.evaluator import RequestedEvaluator

RootAlgorithm = RLAlgorithm | SupervisedAlgorithm


class Task(Protocol):
    """All that the trainer does differently for different kinds of learning."""

    counts: Literal["env_steps", "updates"]  # what the progress of a run is told in
    evaluates_later: bool  # training goes on meanwhile

    @property
    def algorithm(self) -> RootAlgorithm:
        """That learns."""

    @property
    def budget(self) -> Budget:
        """When the run ends."""

    @property
    def num_restarts(self) -> int:
        """Environments that failed and were built anew."""

    def num_threads(self, then: Mapping[str, Any]) -> int:
        """Torch threads that suit it; `then` is `run.json` of the run that goes on, empty for a new one."""

    def start(self, progress: Progress, summary: Summary, timers: Timers) -> Ownership:
        """Once, before the first iteration; returns which optimizer owns which parameter."""

    def train_iter(self, progress: Progress) -> None:
        """One iteration."""

    def make_evaluator(self) -> RequestedEvaluator:
        """Evaluates the algorithm on what it does not learn from."""

    def identity(self) -> dict[str, str]:
        """What a run that goes on must find as it was: `run.json` remembers it."""

    def facts(self) -> dict[str, Any]:
        """What else `run.json` says about it."""

    def resumption(self, episodes_go_on: bool) -> str:
        """How a run goes on from a checkpoint, for people."""

    def words(self) -> list[str]:
        """What else to tell at the start."""

    def close(self) -> None:
        """Ends environments and processes. Twice is fine."""
