"""The trainer: one readable loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import torch

from alfish import config as gin_config
from alfish import nest
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.create import create_environment
from alfish.errors import NumericFault, StorageFault
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.console import Console
from alfish.summary.timers import Timers
from alfish.training.async_unroller import AsyncUnroller
from alfish.training.budget import Budget
from alfish.training.build import build_algorithm, warn_of_idle_options
from alfish.training.checkpointer import Checkpointer, Stateful
from alfish.training.crash import may_save
from alfish.training.epoch import Epoch
from alfish.training.hooks import Hooks
from alfish.training.periodic_evaluation import PeriodicEvaluation
from alfish.training.results import EpochStats, TrainResult
from alfish.training.run_folder import RunFolder, new_folder
from alfish.training.run_record import RunRecord
from alfish.training.run_start import RunStart
from alfish.training.run_summary import SummarySchedule, make_summary
from alfish.training.signals import RunSignals
from alfish.training.worker_config import WorkerConfig


class Trainer:
    """Trains the algorithm of a `TrainerConfig` and keeps everything in the run folder.

    `trainer.train()` goes to the end; `for epoch in trainer:` yields an `EpochStats` after every epoch. A folder that
    holds checkpoints is resumed.

    Args:
        config: the options; None: as bound by gin.
        root_dir: the run folder; None: `config.root_dir`, else `runs/<config name>/<time>`.
        strict: refuse bindings that nothing uses, rather than warn.
        init_from: another run, `RUN[@step|@best][:prefix]`, whose parameters a run that is new begins with.
    """

    def __init__(
        self,
        config: TrainerConfig | None = None,
        root_dir: str | None = None,
        strict: bool = False,
        init_from: str | None = None,
    ) -> None:
        from_gin = config is None
        self.config = config = TrainerConfig() if config is None else config
        self.folder = RunFolder(root_dir or config.root_dir or new_folder(_parent_folder()))
        with ExitStack() as resources:  # when a part cannot be made, the parts before it are closed
            self.folder.open()
            resources.callback(self.folder.close)
            self.progress = Progress()
            self.timers = Timers()
            self.seeds = self._choose_seeds()
            torch.set_num_threads(config.num_threads or 1)

            self.env = resources.enter_context(create_environment())
            self.algorithm = build_algorithm(config, self.env, self.seeds)
            warn_of_idle_options(self.algorithm, config)
            path = self.folder.path
            self.summary = make_summary(path / "train", path / "progress.csv", self.progress, config)
            resources.callback(self.summary.close)
            unroller = self._make_unroller(from_gin, resources) if config.async_unroll else None
            ownership = self.algorithm.start(
                self.env, config, self.seeds, self.progress, self.summary, self.timers, unroller
            )

            self._budget = Budget.of(config, self.env.batch_size, self.algorithm.on_policy)
            self._summary_schedule = SummarySchedule(config, self._budget, self.progress)
            parts: dict[str, Stateful] = {"summary": self.summary, "summary_schedule": self._summary_schedule}
            self._evaluation: PeriodicEvaluation | None = None
            if config.evaluate:
                self._evaluation = PeriodicEvaluation(
                    config, self._budget, self.progress, self.seeds, path, self.algorithm, from_gin
                )
                resources.callback(self._evaluation.close)
                parts["evaluation"] = self._evaluation
            self.hooks = Hooks(config.hooks, self.algorithm, config, self.progress)
            self._checkpointer = Checkpointer(
                self.folder.checkpoints,
                config,
                self.algorithm,
                ownership,
                self.progress,
                self._budget,
                parts,
                announce=lambda path: self.hooks.call("on_checkpoint", path),
            )
            resources.callback(self._checkpointer.close)
            self._console = Console(show_progress=config.show_progress, verbose=config.verbose)
            resources.callback(self._console.close)
            self._signals = RunSignals(path, config.grace_period, self.folder.checkpoints.last_words)
            self._stopped_by: str | None = None
            self._is_between = True  # iterations: what the run is now could be gone on from

            if self._evaluation is not None and gin_config.inoperative_lines():
                self._evaluation.wait_until_ready()  # it may use what seems idle
            gin_config.report_inoperative(strict)
            start = RunStart(self.folder, self.algorithm, self.env)
            start.restore(self._checkpointer, init_from)
            self.progress.fraction = self._budget.fraction(self.progress)
            self._record = RunRecord(self.folder)
            self._record.begin(config, self.algorithm, self.env, self._budget, self.seeds.root, start)
            self._introduce(start)
            self.summary.text("optimizers", ownership.report())
            resources.callback(self._write_end)
            self._resources = resources.pop_all()

    def train(self) -> TrainResult:
        """Trains to the end of the budget, or until the stop condition holds. Ctrl-C saves first."""
        with self._signals:
            for _ in self:
                pass
        return self.result

    def __iter__(self) -> Iterator[EpochStats]:
        """Trains; yields after every epoch. Without `num_epochs` the whole run is one."""
        if not self.folder.is_open:
            raise RuntimeError("this trainer has ended; a new one with its root_dir goes on from the last checkpoint")
        try:
            self.hooks.call("on_train_start")
            self._console.begin(self.progress)
            epoch = Epoch(self)
            while not self._is_over():
                self.summary.enabled = self._summary_schedule.next_may_write()
                self._train_iter()
                self._summarize()
                self._evaluate()
                self._heed_signals()
                self._save()
                self.hooks.call("on_iteration_end")
                self._console.update(self.progress, self.algorithm.metrics, self.timers)
                if self._budget.epoch_is_over(self.progress) or self._is_over():
                    yield epoch.finish()
                    epoch = Epoch(self)
            self._save()
            self.hooks.call("on_train_end", self.result)
        except GeneratorExit:  # whoever asked for epochs wants no more of them
            if not self._is_over():
                self._stopped_by = "interrupted"
            self._save()
            raise
        except Exception as error:
            self._save_upon_crash(error)
            raise
        finally:
            self.close()

    @property
    def epoch(self) -> int:
        """The number of the epoch that is under way or just ended, from 1."""
        return self._budget.epoch(self.progress)

    @property
    def result(self) -> TrainResult:
        """What the run has come to so far."""
        return TrainResult(
            iterations=self.progress.iterations,
            env_steps=self.progress.env_steps,
            updates=self.progress.updates,
            episodes=self.progress.episodes,
            mean_return=self.algorithm.metrics.average_return,
            evaluation=self._evaluation.latest if self._evaluation else None,
            best_score=self._evaluation.best_score if self._evaluation else None,
            seconds=self.timers.seconds(),
            stopped_by=self._stopped_by or "budget",
            root_dir=str(self.folder.path),
            env_restarts=self.env.num_restarts,
        )

    def close(self) -> None:
        """Ends environments and files, and frees the run folder. Calling it twice is fine."""
        self._resources.close()

    def _train_iter(self) -> None:
        self._is_between = False
        self.algorithm.train_iter(self._budget.may_interact(self.progress))
        self.progress.fraction = self._budget.fraction(self.progress)
        self._is_between = True

    # Between iterations

    def _is_over(self) -> bool:
        return self._budget.is_used_up(self.progress) or self._stopped_by is not None

    def _summarize(self) -> None:
        if self._summary_schedule.writes():
            with self.summary.scope("Time"):
                for phase, share in self.timers.shares().items():
                    self.summary.scalar(phase, share)
            if self.env.num_restarts:
                self.summary.scalar("env_restarts", self.env.num_restarts)
            self.summary.write(self.algorithm.metrics.results())
        self.summary.poll()

    def _evaluate(self) -> None:
        evaluation = self._evaluation
        is_wished = self._signals.takes_evaluation_wish()
        if evaluation is None:
            if is_wished:
                self._console.message("no evaluation: TrainerConfig.evaluate is False")
            return
        if evaluation.is_due(self.algorithm.metrics) or is_wished:
            self.hooks.call("on_eval_start")
            with self.timers("eval"):
                evaluation.request(self.algorithm)
        self._take_results(evaluation)
        if self._budget.is_used_up(self.progress):
            self._wait_for_results(evaluation)

    def _wait_for_results(self, evaluation: PeriodicEvaluation) -> None:
        with self.timers("eval"):
            for words in evaluation.wait():
                if words:
                    self._console.message(words)
                self._take_results(evaluation)
                if self._signals.received is not None:
                    return

    def _take_results(self, evaluation: PeriodicEvaluation) -> None:
        for evaluated, result, is_best in evaluation.collect():
            self.hooks.call("on_eval_end", result)
            self._console.message(
                f"evaluation at {result.env_steps:,} steps: mean return {result.mean_return:.2f} +- "
                f"{result.std_return:.2f}"
            )
            if evaluation.is_enough(result):  # asked first: what the condition remembers is saved
                self._stopped_by = type(self.config.stop_condition).__name__
            if self.config.keep_best and is_best:
                with self.timers("save"):
                    self._checkpointer.save_best(evaluated)

    def _save(self) -> None:
        is_wished = self._signals.takes_checkpoint_wish()
        with self.timers("save"):
            self._checkpointer.save_if_due()
            if self._is_over() or is_wished:
                self._checkpointer.save()
            if self._is_over():
                self._checkpointer.finish()

    def _heed_signals(self) -> None:
        if self._signals.received is not None:
            self._stopped_by = self._signals.received.name
            self._console.message(f"{self._stopped_by}: saving at iteration {self.progress.iterations} and leaving")

    def _save_upon_crash(self, error: Exception) -> None:
        """Saves the iteration that was finished last, unless the next one had begun: half of one is no state."""
        if isinstance(error, NumericFault):
            self._dump(error)
        is_wanted = self._is_between and self.progress.iterations > 0 and not isinstance(error, StorageFault)
        if is_wanted and may_save(error, self.progress.iterations, self.config.confirm_checkpoint_upon_crash):
            try:
                self._checkpointer.save()
                self._checkpointer.finish()
            except Exception as failure:  # must not hide the error
                self._console.message(f"the run could not be saved: {failure}")
        done = self.progress.iterations
        where = f"after iteration {done}" if self._is_between else f"in iteration {done + 1}"
        self._console.message(f"{type(error).__name__} {where}. {self.folder.checkpoints.last_words()}")

    def _dump(self, fault: NumericFault) -> None:
        self._stopped_by = "NumericFault"
        file = self.folder.path / "nan_dump.pt"
        with suppress(OSError, RuntimeError):  # a full disk must not hide the fault
            torch.save(nest.named_leaves(nest.detach(fault.batch)), file)
            self._console.message(f"what the fault was computed from is in {file}")

    # At the start

    def _make_unroller(self, from_gin: bool, resources: ExitStack) -> AsyncUnroller:
        setup = WorkerConfig.of(self.config, from_gin, "TrainerConfig.async_unroll")
        unroller = AsyncUnroller(self.algorithm, self.env, self.config, setup, self.seeds, self.timers)
        resources.callback(unroller.rest)
        return unroller

    def _choose_seeds(self) -> Seeds:
        if self.config.random_seed is not None:
            return Seeds(self.config.random_seed)
        recorded = self.folder.read_seed()
        return Seeds.draw() if recorded is None else Seeds(recorded)

    def _write_end(self) -> None:
        state = self._stopped_by or ("done" if self._is_over() else "interrupted")
        try:
            self._record.end(state, self.result)
        except StorageFault as fault:  # nothing is lost by it, and it must not hide what ended the run
            self._console.message(str(fault))

    def _introduce(self, start: RunStart) -> None:
        say = self._console.message
        env, name = self.env, type(self.algorithm).__name__
        size = sum(parameter.numel() for parameter in self.algorithm.parameters())
        say(f"{name} with {size:,} parameters on {env.batch_size} x {env.name}, for {self._budget}")
        say(f"seed {self.seeds.root}, {torch.get_num_threads()} torch thread(s), run folder {self.folder.path}")
        if self.config.async_unroll:
            say(f"{self.config.num_unroll_workers} worker(s) act meanwhile; such a run cannot be repeated to the bit")
        for words in start.words():
            say(words)


def _parent_folder() -> Path:
    config = gin_config.current()
    return Path("runs") if config is None else Path("runs") / config.name
