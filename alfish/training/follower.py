"""A rank above 0: it acts and learns along with rank 0, which alone has the run folder."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from alfish.algorithms.ownership import Ownership
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.collective import Collective
from alfish.progress import Progress
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.build import bound_options
from alfish.training.distributed import Opening, agreed_stop, fitted_options, patience, refuse_uneven_work
from alfish.training.environment_task import EnvironmentTask
from alfish.training.parameter_check import ParameterCheck

_STOP = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class _Shared:
    """Where rank 0 starts."""

    progress: dict[str, int | float]
    model: dict[str, Any]
    optimizers: dict[str, Any]
    run_state: dict[str, Any]  # without the episodes; empty in a run that is new
    num_threads: int


def share_start(ranks: Collective, algorithm: RLAlgorithm, ownership: Ownership, progress: Progress) -> None:
    """Gives the state of rank 0, which may have restored a checkpoint, to all others.

    What a rank has for itself is not in the checkpoint: the others keep random streams of their own, begin new
    episodes, and fill their replay anew.
    """
    if ranks.size == 1:
        return
    own = {name: value for name, value in algorithm.run_state().items() if name != "unroller"}
    optimizers = {name: optimizer.state_dict() for name, optimizer in ownership.optimizers.items()}
    state = own if progress.iterations else {}
    mine = _Shared(progress.state_dict(), algorithm.state_dict(), optimizers, state, torch.get_num_threads())
    first: _Shared = ranks.from_first(mine if ranks.rank == 0 else None)
    if ranks.rank == 0:
        return
    torch.set_num_threads(first.num_threads)  # sums come out otherwise with another number
    progress.load_state_dict(first.progress)
    algorithm.load_state_dict(first.model)
    for name, optimizer_state in first.optimizers.items():
        ownership.optimizers[name].load_state_dict(optimizer_state)
    if first.run_state:
        kept = {name: own[name] for name in ("metrics", "transformer", "generators")}
        loop = {**first.run_state["loop"], "shuffle": own["loop"]["shuffle"]}
        algorithm.load_run_state({**first.run_state, **kept, "loop": loop, "unroller": {}})


class Follower:
    """Trains in lockstep with the `Trainer` of rank 0, by the options that gin has.

    Args:
        ranks: this process is one of them, but not the first.
        config: the options; None: as bound by gin.
    """

    def __init__(self, ranks: Collective, config: TrainerConfig | None = None) -> None:
        from_gin = config is None
        self.config = config = fitted_options(bound_options() if config is None else config, ranks)
        self.progress = Progress()
        self._ranks = ranks
        self._received: signal.Signals | None = None
        ranks.join(patience(config))
        opening: Opening = ranks.from_first(None)
        with ExitStack() as resources:
            self.task = EnvironmentTask(config, opening.seeds(ranks.rank), from_gin, ranks)
            resources.callback(self.task.close)
            self.algorithm = self.task.algorithm
            refuse_uneven_work(config, self.algorithm, ranks)
            ownership = self.task.start(self.progress, Summary.disabled(), Timers())
            share_start(ranks, self.algorithm, ownership, self.progress)
            self._check = ParameterCheck(ranks, self.algorithm, config.ddp_paras_check_interval)
            self._resources = resources.pop_all()

    def train(self) -> signal.Signals | None:
        """Trains as long as rank 0 does; returns the signal that ended the run, if one did."""
        with self._resources:
            for kind in _STOP:
                signal.signal(kind, self._stop)
            for kind in (signal.SIGHUP, signal.SIGUSR2):  # wishes, which rank 0 fulfils
                signal.signal(kind, signal.SIG_IGN)
            budget, received = self.task.budget, None
            is_over = budget.is_used_up(self.progress)
            while not is_over and received is None:
                self.task.train_iter(self.progress)
                self.progress.fraction = budget.fraction(self.progress)
                self._check.after(self.progress.iterations)
                received, is_over = agreed_stop(self._ranks, self._received, False)
            return received

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """All ranks stop after the same iteration; a second signal acts as usual."""
        self._received = signal.Signals(number)
        for kind in _STOP:
            signal.signal(kind, signal.SIG_DFL)
