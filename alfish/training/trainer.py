"""The trainer: one readable loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path

import torch

from alfish import config as gin_config
from alfish import nest
from alfish.algorithms.output_summary import summarized_output
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.collective import Collective
from alfish.errors import NumericFault, StorageFault
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.console import Console
from alfish.summary.logger import open_loggers
from alfish.summary.timers import Timers
from alfish.training.accelerator import empty_cache
from alfish.training.build import bound_options, warn_of_idle
from alfish.training.checkpointer import Checkpointer, Stateful
from alfish.training.code_snapshot import store_code_snapshots
from alfish.training.crash import may_save
from alfish.training.distributed import Opening, agreed_stop, fitted_options, patience, refuse_uneven_work
from alfish.training.environment_task import EnvironmentTask
from alfish.training.epoch import Epoch
from alfish.training.follower import share_start
from alfish.training.hooks import Hooks
from alfish.training.parameter_check import ParameterCheck
from alfish.training.periodic_evaluation import PeriodicEvaluation
from alfish.training.profiling import LoopProfiler
from alfish.training.results import EpochStats, TrainResult
from alfish.training.run_folder import RunFolder, new_folder
from alfish.training.run_record import RunRecord
from alfish.training.run_start import RunStart
from alfish.training.run_summary import SummarySchedule, make_summary
from alfish.training.signals import RunSignals
from alfish.training.supervised_task import SupervisedTask
from alfish.training.task import Task


class Trainer:
    """Trains the algorithm of a `TrainerConfig` and keeps everything in the run folder.

    `trainer.train()` goes to the end; `for epoch in trainer:` yields an `EpochStats` after every epoch. A folder that
    holds checkpoints is resumed.

    Args:
        config: the options; None: as bound by gin.
        root_dir: the run folder; None: `config.root_dir`, else `runs/<config name>/<time>`.
        strict: refuse bindings that nothing uses, rather than warn.
        init_from: another run, `RUN[@step|@best][:prefix]`, whose parameters a run that is new begins with.
        ranks: under `torchrun`, the processes that train together, of which this is the first; None: it is alone.
    """

    def __init__(
        self,
        config: TrainerConfig | None = None,
        root_dir: str | None = None,
        strict: bool = False,
        init_from: str | None = None,
        ranks: Collective | None = None,
    ) -> None:
        from_gin = config is None
        self._ranks = ranks = ranks or Collective()
        self.config = config = fitted_options(bound_options() if config is None else config, ranks)
        self.folder = RunFolder(root_dir or config.root_dir or new_folder(_parent_folder()))
        with ExitStack() as resources:  # when a part cannot be made, the parts before it are closed
            self.folder.open()
            resources.callback(self.folder.close)
            self.progress = Progress()
            self.timers = Timers()
            self.seeds = self._choose_seeds()
            torch.set_num_threads(config.num_threads or 1)

            ranks.join(patience(config))
            ranks.from_first(Opening.of(self.seeds, self.folder.checkpoints))
            self.task = _make_task(config, self.seeds, from_gin, ranks)
            resources.callback(self.task.close)
            self.algorithm = self.task.algorithm
            if isinstance(self.algorithm, RLAlgorithm):
                refuse_uneven_work(config, self.algorithm, ranks)
            if ranks.size == 1 and config.ddp_paras_check_interval:
                warn_of_idle({"one process trains: torchrun starts several": ["ddp_paras_check_interval"]})
            then = self.folder.read_run() if self.folder.checkpoints.all() else {}
            self._num_threads = self.task.num_threads(then)
            torch.set_num_threads(self._num_threads)
            path = self.folder.path
            loggers = open_loggers(config.loggers, path)
            self.summary = make_summary(path / "train", path / "progress.csv", self.progress, config, loggers)
            resources.callback(self.summary.close)
            ownership = self.task.start(self.progress, self.summary, self.timers)

            self._budget = self.task.budget
            self._summary_schedule = SummarySchedule(config, self._budget, self.progress)
            parts: dict[str, Stateful] = {"summary": self.summary, "summary_schedule": self._summary_schedule}
            self._evaluation: PeriodicEvaluation | None = None
            if config.evaluate:
                self._evaluation = PeriodicEvaluation(config, self.task, self.progress, path, loggers)
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
            self._console = Console(counts=self.task.counts, show_progress=config.show_progress, verbose=config.verbose)
            resources.callback(self._console.close)
            self._signals = RunSignals(path, config.grace_period, self.folder.checkpoints.last_words)
            self._stopped_by: str | None = None
            self._is_between = True  # iterations: what the run is now could be gone on from

            if self._evaluation is not None and gin_config.inoperative_lines():
                self._evaluation.wait_until_ready()  # it may use what seems idle
            gin_config.report_inoperative(strict)
            start = RunStart(self.folder, self.task)
            start.restore(self._checkpointer, init_from)
            self.progress.fraction = self._budget.fraction(self.progress)
            if isinstance(self.algorithm, RLAlgorithm):
                share_start(ranks, self.algorithm, ownership, self.progress)
            self._check = ParameterCheck(ranks, self.algorithm, config.ddp_paras_check_interval)
            self._record = RunRecord(self.folder)
            self._record.begin(config, self.task, self.seeds.root, start)
            self._introduce(start)
            self.summary.text("optimizers", ownership.report())
            store_code_snapshots(config.code_snapshots or (), path, self.summary, start.iteration)
            self._profiler = LoopProfiler(path / "profile" if config.profiling else None)
            resources.callback(self._profiler.close)
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
                self._profiler.resume()
                self.summary.enabled = self._summary_schedule.next_may_write()
                self._train_iter()
                self._summarize()
                self._evaluate()
                self._heed_signals()
                self._save()
                self.hooks.call("on_iteration_end")
                self._console.update(self.progress, self.algorithm.metrics, self.timers)
                self._profiler.pause()
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
            env_restarts=self.task.num_restarts,
        )

    def close(self) -> None:
        """Ends environments and files, and frees the run folder. Calling it twice is fine."""
        self._resources.close()

    def _train_iter(self) -> None:
        self._is_between = False
        torch.set_num_threads(self._num_threads)  # another trainer of this process may want another number
        if self.config.empty_cache:
            empty_cache(self.config.device)
        shows_output = self.config.summarize_output and self.summary.enabled
        with summarized_output(self.algorithm, self.summary) if shows_output else nullcontext():
            self.task.train_iter(self.progress)
        self.progress.fraction = self._budget.fraction(self.progress)
        self._check.after(self.progress.iterations)
        self._is_between = True

    # Between iterations

    def _is_over(self) -> bool:
        return self.progress.fraction >= 1.0 or self._stopped_by is not None

    def _summarize(self) -> None:
        if self._summary_schedule.writes():
            with self.summary.scope("Time"):
                for phase, share in self.timers.shares().items():
                    self.summary.scalar(phase, share)
            if self.task.num_restarts:
                self.summary.scalar("env_restarts", self.task.num_restarts)
            metrics = self.algorithm.metrics.results()
            if self._ranks.size > 1:  # the rest is of this rank
                metrics |= {"EnvironmentSteps": self.progress.env_steps, "NumberOfEpisodes": self.progress.episodes}
            self.summary.write(metrics)
        self.summary.poll()

    def _evaluate(self) -> None:
        evaluation = self._evaluation
        is_wished = self._signals.takes_evaluation_wish()
        if evaluation is None:
            if is_wished:
                self._console.message("no evaluation: TrainerConfig.evaluate is False")
            return
        if evaluation.is_due() or is_wished:
            self.hooks.call("on_eval_start")
            with self.timers("eval"):
                evaluation.request()
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
            self._console.message(f"evaluation {result.moment}: {result}")
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
        received, _ = agreed_stop(self._ranks, self._signals.received, self._is_over())
        if received is not None:
            self._stopped_by = received.name
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
        self._checkpointer.close()  # what is being written may yet be the last checkpoint
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
        name = type(self.algorithm).__name__
        size = sum(parameter.numel() for parameter in self.algorithm.parameters())
        say(f"{name} with {size:,} parameters on {self.task}, for {self._budget}")
        say(f"seed {self.seeds.root}, {torch.get_num_threads()} torch thread(s), run folder {self.folder.path}")
        for words in [*self.task.words(), *start.words()]:
            say(words)


def _make_task(config: TrainerConfig, seeds: Seeds, from_gin: bool, ranks: Collective) -> Task:
    return SupervisedTask(config, seeds) if config.ml_type == "sl" else EnvironmentTask(config, seeds, from_gin, ranks)


def _parent_folder() -> Path:
    config = gin_config.current()
    return Path("runs") if config is None else Path("runs") / config.name
