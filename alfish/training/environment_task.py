"""Reinforcement learning: environments, and an algorithm that acts in them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Literal

from alfish.algorithms.hybrid import HybridLoop
from alfish.algorithms.off_policy import OffPolicyLoop
from alfish.algorithms.ownership import Ownership
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.collective import Collective
from alfish.environments.create import create_environment
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.async_evaluator import AsyncEvaluator
from alfish.training.async_unroller import AsyncUnroller
from alfish.training.budget import Budget
from alfish.training.build import build_algorithm, warn_of_idle_options
from alfish.training.evaluator import InProcessEvaluator, RequestedEvaluator
from alfish.training.offline_sources import load_offline
from alfish.training.threads import MiniBatch, num_threads_of_run
from alfish.training.worker_config import WorkerConfig


class EnvironmentTask:
    """`TrainerConfig.ml_type = 'rl'`.

    Args:
        config: the options of the run.
        seeds: of the run.
        from_gin: `config` was made by gin, rather than in Python.
        ranks: that train together, each in environments of its own; None: this process is alone.
    """

    counts: Literal["env_steps", "updates"] = "env_steps"

    def __init__(self, config: TrainerConfig, seeds: Seeds, from_gin: bool, ranks: Collective | None = None) -> None:
        self._config, self._seeds, self._from_gin = config, seeds, from_gin
        self._ranks = ranks or Collective()
        self.evaluates_later = config.async_eval
        with ExitStack() as resources:
            self.env = resources.enter_context(create_environment())
            self.algorithm = build_algorithm(config, self.env, seeds)
            warn_of_idle_options(self.algorithm, config)
            self._offline = load_offline(config, self.env)
            self.budget = Budget.of(config, self.env.batch_size * self._ranks.size, self.algorithm.on_policy)
            self._resources = resources.pop_all()

    @property
    def num_restarts(self) -> int:
        return self.env.num_restarts

    def num_threads(self, then: Mapping[str, Any]) -> int:
        mini_batch = MiniBatch.of(self._config, self.algorithm, self.env.batch_size)
        return num_threads_of_run(self._config, self.algorithm, mini_batch, then, self._ranks.num_local)

    def start(self, progress: Progress, summary: Summary, timers: Timers) -> Ownership:
        config, unroller = self._config, None
        if config.async_unroll:
            setup = WorkerConfig.of(config, self._from_gin, "TrainerConfig.async_unroll")
            unroller = AsyncUnroller(self.algorithm, self.env, config, setup, self._seeds, timers)
            self._resources.callback(unroller.rest)
        tape = self._offline.tape if self._offline else None
        ownership = self.algorithm.start(
            self.env, config, self._seeds, progress, summary, timers, unroller, tape, self._ranks
        )
        loop = self.algorithm.loop
        if isinstance(loop, HybridLoop) and loop.is_offline:
            self.counts = "updates"
            self.budget = Budget.offline(config, loop.updates_per_iter)
        return ownership

    def train_iter(self, progress: Progress) -> None:
        self.algorithm.train_iter(self.budget.may_interact(progress))

    def make_evaluator(self) -> RequestedEvaluator:
        config = self._config
        if not config.async_eval:
            return InProcessEvaluator(config, self._seeds)
        setup = WorkerConfig.of(config, self._from_gin, "TrainerConfig.async_eval")
        return AsyncEvaluator(setup, self.algorithm, self._seeds, config.eval_timeout)

    def identity(self) -> dict[str, str]:
        return {"environment": self.env.name}

    def facts(self) -> dict[str, Any]:
        offline = {"offline_data": list(self._offline.words)} if self._offline else {}
        return {"num_environments": self.env.batch_size, "num_ranks": self._ranks.size, **offline}

    def resumption(self, episodes_go_on: bool) -> str:
        how = "in the middle of its episodes" if episodes_go_on else "with new episodes"
        if self._ranks.size == 1:
            return how
        replay = "" if self.algorithm.on_policy else " and an empty replay"
        return f"rank 0 {how}, the others with new ones{replay}: not to the bit what it would have been"

    def words(self) -> list[str]:
        words = [f"backend: {self.env.remark}"] if self.env.remark else []
        words += self._offline.words if self._offline else []
        if self._offline and self.algorithm.is_pretraining:
            after = self._config.rl_train_after_update_steps
            is_offline = self.counts == "updates"
            words.append("nobody acts in this run" if is_offline else f"nobody acts before {after:,} updates are made")
        loop = self.algorithm.loop
        if isinstance(loop, OffPolicyLoop) and self.counts == "env_steps":
            length, number = loop.replay.max_length, loop.replay.num_environments
            size = f"{loop.replay_nbytes / 1e6:,.1f} MB"
            words.append(f"replay: {length:,} steps x {number} environments = {length * number:,} steps, {size}")
        if self._config.async_unroll:
            number = self._config.num_unroll_workers
            words.append(f"{number} worker(s) act meanwhile; such a run cannot be repeated to the bit")
        if self._ranks.size > 1:
            words.append(
                f"{self._ranks.size} ranks, each with its own environments and mini batches; gradients are averaged; "
                "returns and losses that are shown are those of rank 0"
            )
        return words

    def close(self) -> None:
        self._resources.close()

    def __str__(self) -> str:
        return f"{self.env.batch_size} x {self.env.name}"
