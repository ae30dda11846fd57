"""The small files of a run folder: what was run, and what came of it."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from alfish import config as gin_config
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import Place
from alfish.config.record import Binding, Config
from alfish.training.option_history import OptionHistory
from alfish.training.results import TrainResult
from alfish.training.run_folder import RunFolder, describe_machine
from alfish.training.run_readme import readme_text
from alfish.training.run_start import RunStart
from alfish.training.task import Task

_DRAWN = Place("drawn when the run began")
_LIMITS = ("num_epochs", "num_iterations", "num_env_steps")


class RunRecord:
    """Writes `run.json`, `config.gin`, `operative.gin` and `README.md`, when a run begins and when it ends.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._options = OptionHistory(folder)

    def begin(
        self,
        options: TrainerConfig,
        task: Task,
        seed: int,
        start: RunStart,
    ) -> None:
        """
        Args:
            options: of the run.
            task: what it learns from, and who learns.
            seed: root of all random streams. When nobody chose it, `config.gin` gets it, and so repeats the run.
            start: where the run starts, and with what.
        """
        self._task = task
        config = gin_config.current()
        if config is not None:
            repeating = config if options.random_seed is not None else _with_seed(config, seed)
            self._folder.write_text("config.gin", repeating.text)
        self._options.begin(start.iteration, bool(start.changes))
        self._write_operative()
        if start.is_new:  # whatever a start that came to no checkpoint had recorded
            self._folder.write_run(init_from=start.transferred and start.transferred.facts())
        self._folder.write_run(
            ml_type=options.ml_type,
            algorithm=type(task.algorithm).__name__,
            **task.identity(),
            **task.facts(),
            **_compilation(task),
            modules=[] if config is None else [item.module for item in config.imports],
            conf_file=options.conf_file,
            seed=seed,
            budget=str(task.budget),
            limits={name: limit for name in _LIMITS if (limit := getattr(options, name))},
            state="running",
            started=self._folder.read_run().get("started", _now()),
            **describe_machine(torch.get_num_threads()),
        )
        self._write_readme()

    def end(self, state: str, result: TrainResult) -> None:
        """
        Args:
            state: 'done', or what ended the run.
            result: what it came to.
        """
        evaluation = result.evaluation
        facts = {
            "state": state,
            "ended": _now(),
            "iterations": result.iterations,
            "env_steps": result.env_steps,
            "updates": result.updates,
            "episodes": result.episodes,
            **_compilation(self._task),  # that it cannot be is known at the first update only
        }
        if evaluation is not None:
            facts |= {"best_score": result.best_score, "evaluation": evaluation.facts()}
        self._write_operative()
        self._folder.write_run(**facts)
        self._write_readme()

    def _write_operative(self) -> None:
        if gin_config.current() is not None:
            self._options.write(gin_config.operative_text())

    def _write_readme(self) -> None:
        self._folder.write_text("README.md", readme_text(self._folder.read_run()))


def _compilation(task: Task) -> dict[str, str]:
    """What came of `TrainerConfig.compile`."""
    algorithm = task.algorithm
    return algorithm.compilation if isinstance(algorithm, RLAlgorithm) else {}


def _with_seed(config: Config, seed: int) -> Config:
    drawn = Binding("", "TrainerConfig", "random_seed", seed, _DRAWN)
    others = [binding for binding in config.bindings if binding.key != drawn.key]
    return replace(config, bindings=(*others, drawn))


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %z")
