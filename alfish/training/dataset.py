"""Datasets: recorded experience in a folder of its own.

    data/expert/{steps.pt, manifest.json}

The manifest says where the data come from, how much there is, and what observations and actions look like; it holds
the size and the SHA-256 of the other file. Like checkpoints, a dataset is written aside and renamed, and loaded with
`weights_only=True`, always.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alfish import nest
from alfish.environments.environment import Environment
from alfish.errors import CheckpointError, ConfigError, StorageFault
from alfish.replay.structure import load_nest, save_nest
from alfish.replay.tape import Tape
from alfish.specs import BoundedTensorSpec
from alfish.training.checkpoint import Checkpoint, write_parts
from alfish.types import Nest

_KIND = "alfish dataset"
_VERSION = 1
_STEPS = "steps"


@dataclass(frozen=True)
class Dataset:
    """Recorded experience and what its manifest says."""

    tape: Tape
    environment: str
    action_spec: dict[str, Any]  # by leaf: shape, dtype and bounds, as `plain_spec` writes them


def write_dataset(path: Path, tape: Tape, env: Environment, about: dict[str, Any]) -> None:
    """Makes the folder `path`, which must not exist.

    Args:
        path: where to.
        tape: the data, whole episodes or parts of ones.
        env: they come from.
        about: who made them and how; plain values.
    """
    if path.exists():
        raise ConfigError(f"{path} exists already; choose another folder, or remove it")
    manifest = {
        "kind": _KIND,
        "version": _VERSION,
        "environment": env.name,
        "num_steps": tape.num_steps,
        "num_episodes": tape.num_episodes,
        "observation_spec": plain_spec(env.observation_spec),
        "action_spec": plain_spec(env.action_spec),
        **about,
    }
    aside = path.parent / f".{path.name}.{os.getpid()}"
    try:
        aside.mkdir(parents=True)
        write_parts(aside, {_STEPS: save_nest(tape)}, manifest)
        aside.rename(path)
    except OSError as error:
        raise StorageFault(f"cannot write the dataset {path}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def is_dataset(path: Path) -> bool:
    """Whether the folder says that it is one, be it whole or not."""
    try:
        return Checkpoint(path, 0).manifest.get("kind") == _KIND
    except CheckpointError:
        return False


def read_dataset(path: Path) -> Dataset:
    """
    Raises:
        CheckpointError: it is damaged, or of a newer alfish.
    """
    folder = Checkpoint(path, 0)
    manifest = folder.manifest
    if manifest.get("version") != _VERSION:
        raise CheckpointError(f"{path} is a dataset of version {manifest.get('version')}; this alfish reads {_VERSION}")
    tape = load_nest(folder.load(_STEPS))
    if not isinstance(tape, Tape):
        raise CheckpointError(f"{path} is damaged: {_STEPS}.pt holds no recorded experience")
    return Dataset(tape, str(manifest.get("environment")), dict(manifest.get("action_spec", {})))


def plain_spec(spec: Nest) -> dict[str, Any]:
    """Shape, dtype and bounds of every leaf by its path, for a manifest."""

    def plain(leaf: Any) -> dict[str, Any]:
        facts = {"shape": list(leaf.shape), "dtype": str(leaf.dtype).removeprefix("torch.")}
        if isinstance(leaf, BoundedTensorSpec) and leaf.is_bounded and leaf.numel <= 1024:
            facts |= {"minimum": leaf.minimum.tolist(), "maximum": leaf.maximum.tolist()}
        return facts

    return {path: plain(leaf) for path, leaf in nest.named_leaves(spec).items()}
