"""Beginning a run with the parameters of another one: `--init_from=RUN[@step|@best][:prefix]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from alfish.config.problems import nearest
from alfish.errors import CheckpointError, CheckpointMisfit, ConfigError
from alfish.training.run_folder import RunFolder
from alfish.training.task import RootAlgorithm

_FORM = "--init_from=RUN[@step|@best][:prefix]"
_SOURCE = re.compile(r"(?P<run>.+?)(@(?P<which>latest|best|\d+))?(:(?P<prefix>\w+(\.\w+)*))?")
_MOST_LINES = 10


@dataclass(frozen=True)
class TransferSource:
    """Whose parameters, of when, and which of them.

    >>> TransferSource.parse("runs/walk@best:actor_network")
    TransferSource(run='runs/walk', which='best', prefix='actor_network')
    """

    run: str
    which: str = "latest"  # or 'best', or an iteration
    prefix: str = ""  # of the names of parameters; '': all

    @classmethod
    def parse(cls, text: str) -> TransferSource:
        if text and Path(text).expanduser().is_dir():  # whatever characters it has
            return cls(text)
        match = _SOURCE.fullmatch(text)
        if match is None:
            raise ConfigError(f"--init_from={text}: expects {_FORM}")
        return cls(match["run"], match["which"] or "latest", match["prefix"] or "")


@dataclass(frozen=True)
class Transferred:
    """What a run began with.

    Parameters are told by their names in the algorithm, among them the statistics of normalisers.
    """

    source: TransferSource
    iteration: int  # of the checkpoint
    loaded: tuple[str, ...]
    left: Mapping[str, str]  # what does not fit, with the reason

    def facts(self) -> dict[str, Any]:
        """For `run.json`."""
        return {
            "run": str(Path(self.source.run).expanduser().resolve()),
            "checkpoint": self.iteration,
            "prefix": self.source.prefix,
            "loaded": list(self.loaded),
            "left": dict(self.left),
        }

    def __str__(self) -> str:
        under = f" under {self.source.prefix}" if self.source.prefix else ""
        number = len(self.loaded) + len(self.left)
        told = (
            f"{len(self.loaded)} of {number} tensors{under} are those of {self.source.run}, iteration {self.iteration}"
        )
        return f"{told}; not taken over:{_listed(self.left)}" if self.left else told


def transfer(source: TransferSource, algorithm: RootAlgorithm) -> Transferred:
    """Loads what fits by name and shape; the rest stays as it was made. When nothing fits, that is an error."""
    folder = RunFolder(source.run)
    if not folder.path.is_dir():
        raise CheckpointError(f"--init_from: there is no run folder {folder.path}. It expects {_FORM}")
    checkpoint = folder.checkpoints.find(source.which)
    saved, own = checkpoint.load("model"), algorithm.state_dict()
    names = [name for name in {**own, **saved} if _is_under(source.prefix, name)]
    if not names:
        raise CheckpointError(_unknown_prefix(source, [*own, *saved]))
    reasons = {name: _obstacle(saved.get(name), own.get(name)) for name in names}
    loaded = tuple(name for name, reason in reasons.items() if reason is None)
    left = {name: reason for name, reason in reasons.items() if reason is not None}
    if not loaded:
        raise CheckpointMisfit(f"--init_from: nothing of {checkpoint.path} fits this algorithm:{_listed(left)}")
    algorithm.load_state_dict({name: saved[name] for name in loaded}, strict=False)
    return Transferred(source, checkpoint.iteration, loaded, left)


def _obstacle(saved: torch.Tensor | None, own: torch.Tensor | None) -> str | None:
    if saved is None:
        return "only here"
    if own is None:
        return "only there"
    if saved.shape != own.shape:
        return f"{tuple(saved.shape)} there, {tuple(own.shape)} here"
    return None


def _is_under(prefix: str, name: str) -> bool:
    return f"{name}.".startswith(f"{prefix}." if prefix else "")


def _unknown_prefix(source: TransferSource, names: list[str]) -> str:
    parts = {".".join(name.split(".")[:depth]) for name in names for depth in range(1, name.count(".") + 1)}
    close = nearest(source.prefix, parts)
    hint = f"Did you mean {close}?" if close else f"There are {', '.join(sorted({n.split('.')[0] for n in names}))}."
    return f"--init_from: neither {source.run} nor this algorithm has parameters under {source.prefix!r}. {hint}"


def _listed(reasons: Mapping[str, str]) -> str:
    lines = [f"{name}: {reason}" for name, reason in list(reasons.items())[:_MOST_LINES]]
    more = [f"and {len(reasons) - _MOST_LINES} more"] if len(reasons) > _MOST_LINES else []
    return "".join(f"\n    {line}" for line in [*lines, *more])
