"""Checkpoints: a folder per step, whole or not there at all.

    checkpoints/000100/{model,optimizer,state,replay}.pt + manifest.json

Everything is written into a folder aside, synced, and renamed; the manifest holds sizes and SHA-256, so damage is
noticed when loading. Files are loaded with `weights_only=True`, always.

A checkpoint that is kept only because its evaluation was the best may hold the model alone. It is good for evaluation
and play; a run does not go on from it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import pickle
import shutil
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alfish.errors import CheckpointError, StorageFault

PARTS = ("model", "optimizer", "state")
REPLAY = "replay"  # large, so that only the newest checkpoint carries it
_SPARE = 1.2  # times the size of the tensors must be free before a checkpoint is begun
_PLAIN = (str, int, float, bool, bytes, type(None), torch.Tensor, nn.Parameter)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint on disk."""

    path: Path
    iteration: int

    @property
    def manifest(self) -> dict[str, Any]:
        try:
            manifest: dict[str, Any] = json.loads((self.path / "manifest.json").read_text())
            if not isinstance(manifest.get("files"), dict):
                raise ValueError("it lists no files")
        except (OSError, ValueError, AttributeError) as error:
            raise CheckpointError(f"{self.path} is damaged: its manifest cannot be read: {error}") from error
        return manifest

    @property
    def is_model_only(self) -> bool:
        """Whether it is good for evaluation and play, but not for going on."""
        return bool(self.manifest.get("model_only"))

    def load(self, part: str) -> dict[str, Any]:
        """One part of the checkpoint, checked against the manifest. Never runs code that the file may hold."""
        file = self.path / f"{part}.pt"
        self._check(file.name)
        try:
            loaded: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
            raise CheckpointError(f"{file} cannot be loaded safely: {error}") from error
        return loaded

    def has(self, part: str) -> bool:
        return (self.path / f"{part}.pt").is_file()

    def damage(self) -> str | None:
        """What is wrong with the files; None when all are as the manifest says. The replay may have been dropped."""
        try:
            parts = ("model",) if self.is_model_only else PARTS
            for name in {*self.manifest["files"], *(f"{part}.pt" for part in parts)}:
                if name != f"{REPLAY}.pt" or self.has(REPLAY):
                    self._check(name)
        except CheckpointError as error:
            return str(error)
        return None

    def _check(self, name: str) -> None:
        file = self.path / name
        expected = self.manifest["files"].get(name)
        if expected is None or not file.is_file():
            raise CheckpointError(f"{self.path} is damaged: {name} is missing")
        size = file.stat().st_size
        if size != expected["size"]:
            raise CheckpointError(f"{file} is damaged: it has {size:,} of {expected['size']:,} bytes")
        if _sha256(file) != expected["sha256"]:
            raise CheckpointError(f"{file} is damaged: its checksum differs from the manifest's")


class CheckpointFolder:
    """The checkpoints of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[Checkpoint]:
        """Oldest first."""
        if not self.path.is_dir():
            return []
        steps = sorted(int(child.name) for child in self.path.iterdir() if child.name.isdigit())
        return [self.at(step) for step in steps]

    def at(self, iteration: int) -> Checkpoint:
        """The checkpoint of an iteration, whether it exists or not."""
        return Checkpoint(self.path / f"{iteration:06d}", iteration)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that a run can go on from, with a warning for each newer one that is damaged.

        None when there are none at all.
        """
        damages: list[str] = []
        for checkpoint in reversed(self.all()):
            damage = checkpoint.damage()
            if damage is None and checkpoint.is_model_only:
                continue
            if damage is None:
                for each in damages:
                    _log.warning("%s. Using the checkpoint of iteration %d", each, checkpoint.iteration)
                return checkpoint
            damages.append(damage)
        if damages:
            listed = "\n    ".join(damages)
            raise CheckpointError(f"{self.path}: no checkpoint is whole:\n    {listed}\nUse another --root_dir.")
        return None

    def model_only(self) -> list[Checkpoint]:
        """Those that a run cannot go on from."""
        found = []
        for checkpoint in self.all():
            with suppress(CheckpointError):
                if checkpoint.is_model_only:
                    found.append(checkpoint)
        return found

    def find(self, which: str) -> Checkpoint:
        """'latest', 'best', or an iteration."""
        everything = self.all()
        if not everything:
            raise CheckpointError(f"{self.path} holds no checkpoint; has the run saved one yet?")
        if which == "latest":
            return self.newest() or everything[-1]
        if which == "best":
            best = Checkpoint(self.path / "best", 0)
            if not best.path.exists():
                raise CheckpointError(f"{self.path} has no best checkpoint: the run was not evaluated. Use 'latest'")
            return replace(best, iteration=best.manifest["iteration"])
        for checkpoint in everything:
            if which.isdigit() and checkpoint.iteration == int(which):
                return checkpoint
        steps = ", ".join(str(checkpoint.iteration) for checkpoint in everything)
        raise CheckpointError(f"no checkpoint {which!r} in {self.path}; there are latest, best, {steps}")

    def save(self, iteration: int, parts: dict[str, dict[str, Any]], about: dict[str, Any]) -> Checkpoint:
        """Writes a checkpoint as a whole; `about` goes into the manifest."""
        refuse_unloadable(parts)
        final = self.at(iteration).path
        aside = self.path / f".{final.name}.{os.getpid()}"
        needed = int(_SPARE * num_bytes(parts))
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.sweep()
            if shutil.disk_usage(self.path).free < needed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            aside.mkdir()
            write_parts(aside, parts, {**about, "iteration": iteration})
            if final.exists():
                shutil.rmtree(final)
            aside.rename(final)
            _sync_folder(self.path)
        except (OSError, RuntimeError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise StorageFault(
                f"cannot save the checkpoint of iteration {iteration} in {self.path}: {_reason(error)} "
                f"({self._room(needed)}). {self.last_words()}"
            ) from error
        for other in self.all():
            if REPLAY in parts and other.iteration != iteration:
                (other.path / f"{REPLAY}.pt").unlink(missing_ok=True)
        return Checkpoint(final, iteration)

    def last_words(self) -> str:
        """Which checkpoint a run goes on from, by name; its files are not looked at."""
        alone = self.model_only()
        saved = [checkpoint for checkpoint in self.all() if checkpoint not in alone]
        return f"The last checkpoint is {saved[-1].path}" if saved else "There is no checkpoint"

    def mark_best(self, checkpoint: Checkpoint | None) -> None:
        """`best` points at the checkpoint; None: at nothing."""
        best, link = self.path / "best", self.path / ".best"
        if checkpoint is None:
            best.unlink(missing_ok=True)
            return
        if best.is_dir() and not best.is_symlink():  # the folder was copied by something that follows links
            shutil.rmtree(best)
        link.unlink(missing_ok=True)
        link.symlink_to(checkpoint.path.name)
        link.rename(best)

    def remove(self, checkpoint: Checkpoint) -> None:
        shutil.rmtree(checkpoint.path, ignore_errors=True)

    def sweep(self) -> None:
        """Removes what a killed run left half-written."""
        for child in self.path.iterdir() if self.path.is_dir() else ():
            if child.name.startswith(".") and child.is_dir():
                shutil.rmtree(child, ignore_errors=True)

    def _room(self, needed: int) -> str:
        free = "unknown"
        with suppress(OSError):
            free = f"{shutil.disk_usage(self.path).free / 1e6:,.1f} MB"
        return f"needs {needed / 1e6:,.1f} MB, free: {free}"


def write_parts(folder: Path, parts: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Writes a file for each part, and a manifest with `about`, sizes and checksums; all synced."""
    files = {}
    for name, state in parts.items():
        file = folder / f"{name}.pt"
        with file.open("wb") as stream:
            torch.save(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
        files[file.name] = {"size": file.stat().st_size, "sha256": _sha256(file)}
    with (folder / "manifest.json").open("w") as text:
        json.dump({**about, "files": files}, text, indent=1)
        text.flush()
        os.fsync(text.fileno())


def refuse_unloadable(parts: dict[str, dict[str, Any]]) -> None:
    """Names anything that `weights_only=True` would refuse to load, before it is written.

    Subclasses are refused too: a numpy float is a float, but cannot be loaded.
    """
    for name, state in parts.items():
        _refuse_unloadable(state, name)


def num_bytes(value: Any) -> int:
    """Of all tensors in nested dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return value.nbytes
    children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(num_bytes(child) for child in children)


def _refuse_unloadable(value: Any, path: str) -> None:
    if type(value) in (dict, OrderedDict):
        for key, child in value.items():
            _refuse_unloadable(key, f"{path}, key {key!r}")
            _refuse_unloadable(child, f"{path}.{key}")
    elif type(value) in (list, tuple):
        for index, child in enumerate(value):
            _refuse_unloadable(child, f"{path}.{index}")
    elif type(value) not in _PLAIN:
        raise CheckpointError(
            f"{path} is a {type(value).__module__}.{type(value).__name__}, which cannot be loaded safely. Its "
            "state_dict must hold tensors, numbers, strings, and lists, tuples and dicts of these."
        )


def _reason(error: BaseException) -> str:
    """What the disk said: torch raises an error of its own, which has lost it."""
    link: BaseException | None = error
    while link is not None and not isinstance(link, OSError):
        link = link.__cause__ or link.__context__
    return (link.strerror if link is not None else None) or str(link or error)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
