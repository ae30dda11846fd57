"""Training in several processes that `torchrun` starts: who they are, how they talk, what they cannot do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from signal import Signals
from typing import Any, Self

import torch

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.child import die_with_parent
from alfish.collective import Collective
from alfish.config.problems import ConfigProblems, Problem
from alfish.errors import RankFault
from alfish.seeding import Seeds
from alfish.training.checkpoint import CheckpointFolder

_PATIENCE = 300.0  # seconds; iterations take less, and so does writing a checkpoint
_JOINING = timedelta(seconds=300)  # machines do not start at the same moment

# What cannot be done by several ranks, and what to do instead.
_REFUSED = {
    "async_unroll": "ranks act and learn in turns: set it to False",
    "unroll_episodes": "episodes of different length give ranks different numbers of updates: use unroll_length",
    "offline_buffer_dir": "recorded data are learned from by one process: start the run without torchrun",
}


@dataclass(frozen=True)
class Place:
    """What `torchrun` tells each process through its environment."""

    rank: int
    size: int
    local_rank: int  # on its machine
    num_local: int
    address: str  # where the ranks meet
    port: int
    attempt: str  # `torchrun --max-restarts` starts all of them again
    is_met_by_agent: bool  # torchrun keeps the meeting point, else rank 0 does

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self | None:
        """None in a process that is alone."""
        if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environ.keys() or environ["WORLD_SIZE"] == "1":
            return None
        return cls(
            rank=int(environ["RANK"]),
            size=int(environ["WORLD_SIZE"]),
            local_rank=int(environ.get("LOCAL_RANK", environ["RANK"])),
            num_local=int(environ.get("LOCAL_WORLD_SIZE", environ["WORLD_SIZE"])),
            address=environ["MASTER_ADDR"],
            port=int(environ["MASTER_PORT"]),
            attempt=environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
            is_met_by_agent=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        )


def ranks_of(environ: Mapping[str, str]) -> Collective:
    """The ranks that this process is one of; nobody is waited for yet."""
    place = Place.of(environ)
    return Collective() if place is None else ProcessGroup(place)


class ProcessGroup(Collective):
    """Ranks over torch.distributed: gloo for what is on the CPU, nccl for what is on GPUs.

    Args:
        place: of this process among them.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.rank, self.size, self.num_local = place.rank, place.size, place.num_local
        self._patience = _PATIENCE

    def join(self, patience: float) -> None:
        from torch import distributed
        from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # torch's stubs lack them

        place, self._patience = self.place, patience
        if place.is_met_by_agent:
            die_with_parent(os.getppid())  # an agent that is killed takes nobody along by itself
        with self._lost():
            is_host = place.rank == 0 and not place.is_met_by_agent
            store = TCPStore(place.address, place.port, is_master=is_host, timeout=_JOINING)
            # The meeting point outlives an attempt, and must not give the addresses of dead ranks to the next one.
            meeting = PrefixStore(f"attempt_{place.attempt}", store)
            meeting.set(f"rank {place.rank}", "is here")
            meeting.wait([f"rank {rank}" for rank in range(place.size)], _JOINING)
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            distributed.init_process_group(
                backend, store=meeting, rank=place.rank, world_size=place.size, timeout=timedelta(seconds=patience)
            )

    def leave(self) -> None:
        from torch import distributed

        if distributed.is_initialized():
            distributed.destroy_process_group()

    def sum_(self, tensor: torch.Tensor) -> None:
        from torch import distributed

        with self._lost():
            distributed.all_reduce(tensor)

    def from_first(self, value: Any) -> Any:
        from torch import distributed

        values = [value]
        with self._lost():
            distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def gathered(self, value: Any) -> list[Any]:
        from torch import distributed

        values: list[Any] = [None] * self.size
        with self._lost():
            distributed.all_gather_object(values, value)
        return values

    @contextmanager
    def _lost(self) -> Iterator[None]:
        """What torch raises when a rank does not answer, as an error for people."""
        try:
            yield
        except RuntimeError as error:  # all that torch.distributed raises is one
            reason = str(error).strip().splitlines()[0][:200]
            raise RankFault(
                f"rank {self.rank} of {self.size} lost another one: it ended, or did not answer for "
                f"{self._patience:g} s. What that one printed says more. ({reason})"
            ) from error


@dataclass(frozen=True)
class Opening:
    """What rank 0 knows from the run folder, and tells the others."""

    seed: int
    iteration: int  # of the newest checkpoint; 0: the run is new

    @classmethod
    def of(cls, seeds: Seeds, checkpoints: CheckpointFolder) -> Self:
        return cls(seeds.root, max((each.iteration for each in checkpoints.all()), default=0))

    def seeds(self, rank: int) -> Seeds:
        """Rank 0 has the streams of a run without others; a resumed run shall not repeat those of its beginning."""
        return Seeds(self.seed) if rank == 0 else Seeds(self.seed).child("rank", rank, self.iteration)


def patience(config: TrainerConfig) -> float:
    """Seconds that ranks wait for each other: rank 0 may have to evaluate meanwhile."""
    return _PATIENCE + config.eval_timeout * config.evaluate


def fitted_options(config: TrainerConfig, ranks: Collective) -> TrainerConfig:
    """The options of this rank; refuses what several cannot do."""
    if ranks.size == 1:
        return config
    given = config.non_default()
    problems = [
        Problem((f"TrainerConfig.{name}",), f"does not go with torchrun: {why}")
        for name, why in _REFUSED.items()
        if name in given
    ]
    if config.ml_type == "sl":
        why = "does not go with torchrun: examples are learned from by one process. Start the run without it"
        problems.append(Problem(("TrainerConfig.ml_type",), f"'sl' {why}"))
    if problems:
        raise ConfigProblems(problems)
    if config.device == "cuda" and isinstance(ranks, ProcessGroup):
        return replace(config, device=f"cuda:{ranks.place.local_rank}")
    return config


def refuse_uneven_work(config: TrainerConfig, algorithm: RLAlgorithm, ranks: Collective) -> None:
    """Replay buffers of different ranks hold different numbers of sequences."""
    if ranks.size > 1 and config.whole_replay_buffer_training and not algorithm.on_policy:
        message = (
            f"True does not go with torchrun for {type(algorithm).__name__}: passes over everything stored would give "
            "the ranks different numbers of updates. Sample instead: set it to False"
        )
        raise ConfigProblems([Problem(("TrainerConfig.whole_replay_buffer_training",), message)])


def agreed_stop(ranks: Collective, received: Signals | None, is_over: bool) -> tuple[Signals | None, bool]:
    """After every iteration: a signal that any rank got, and whether rank 0 says that the run is over."""
    if ranks.size == 1:
        return received, is_over
    told = ranks.rows([received or 0, is_over])
    number = int(max(signal for signal, _ in told))
    return Signals(number) if number else None, bool(told[0][1])
