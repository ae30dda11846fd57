"""Checkpoints: a folder per step, whole or not there at all.

    checkpoints/000100/{model,optimizer,state}.pt + manifest.json

Everything is written into a folder aside, synced, and renamed; the manifest holds sizes and SHA-256, so damage is
noticed when loading. Files are loaded with `weights_only=True`, always.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from alfish.errors import CheckpointError, StorageFault

PARTS = ("model", "optimizer", "state")
_PLAIN = (str, int, float, bool, bytes, type(None), torch.Tensor)


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint on disk."""

    path: Path
    iteration: int

    @property
    def manifest(self) -> dict[str, Any]:
        try:
            manifest: dict[str, Any] = json.loads((self.path / "manifest.json").read_text())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.path}: the manifest cannot be read: {error}") from error
        return manifest

    def load(self, part: str) -> dict[str, Any]:
        """One part of the checkpoint, checked against the manifest."""
        file = self.path / f"{part}.pt"
        expected = self.manifest["files"].get(file.name)
        if expected is None or not file.exists():
            raise CheckpointError(f"{self.path}: {file.name} is missing")
        if file.stat().st_size != expected["size"] or _sha256(file) != expected["sha256"]:
            raise CheckpointError(f"{file} is damaged: it differs from what the manifest says")
        loaded: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        return loaded

    def is_intact(self) -> bool:
        """Whether every file is as the manifest says."""
        try:
            files = self.manifest["files"]
            return all(
                (self.path / name).stat().st_size == entry["size"] and _sha256(self.path / name) == entry["sha256"]
                for name, entry in files.items()
            )
        except (CheckpointError, OSError, KeyError):
            return False


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

    def newest(self) -> tuple[Checkpoint, list[Checkpoint]] | None:
        """The newest intact checkpoint, and the damaged ones that are newer; None when there is none at all."""
        damaged: list[Checkpoint] = []
        for checkpoint in reversed(self.all()):
            if checkpoint.is_intact():
                return checkpoint, damaged
            damaged.append(checkpoint)
        if damaged:
            raise CheckpointError(f"{self.path}: all {len(damaged)} checkpoints are damaged")
        return None

    def find(self, which: str) -> Checkpoint:
        """'latest', 'best', or an iteration."""
        everything = self.all()
        if not everything:
            raise CheckpointError(f"{self.path} holds no checkpoint; has the run saved one yet?")
        if which == "latest":
            found = self.newest()
            assert found is not None
            return found[0]
        if which == "best":
            best = self.path / "best"
            if not best.exists():
                raise CheckpointError(f"{self.path} has no best checkpoint: the run was not evaluated. Use 'latest'")
            return Checkpoint(best, int(best.resolve().name))
        for checkpoint in everything:
            if which.isdigit() and checkpoint.iteration == int(which):
                return checkpoint
        steps = ", ".join(str(checkpoint.iteration) for checkpoint in everything)
        raise CheckpointError(f"no checkpoint {which!r} in {self.path}; there are latest, best, {steps}")

    def save(self, iteration: int, parts: dict[str, dict[str, Any]], about: dict[str, Any]) -> Checkpoint:
        """Writes a checkpoint as a whole; `about` goes into the manifest."""
        for name, state in parts.items():
            _refuse_unloadable(state, name)
        final = self.at(iteration).path
        aside = self.path / f".{final.name}.{os.getpid()}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._sweep()
            aside.mkdir()
            files = {}
            for name, state in parts.items():
                file = aside / f"{name}.pt"
                with file.open("wb") as stream:
                    torch.save(state, stream)
                    stream.flush()
                    os.fsync(stream.fileno())
                files[file.name] = {"size": file.stat().st_size, "sha256": _sha256(file)}
            manifest = aside / "manifest.json"
            with manifest.open("w") as text:
                json.dump({**about, "iteration": iteration, "files": files}, text, indent=1)
                text.flush()
                os.fsync(text.fileno())
            if final.exists():
                shutil.rmtree(final)
            aside.rename(final)
            _sync_folder(self.path)
        except (OSError, RuntimeError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            cause = error.__context__ if isinstance(error.__context__, OSError) else error
            raise StorageFault(f"cannot save a checkpoint in {self.path}: {cause}") from error
        return Checkpoint(final, iteration)

    def mark_best(self, checkpoint: Checkpoint) -> None:
        """`best` points at the checkpoint."""
        link = self.path / ".best"
        link.unlink(missing_ok=True)
        link.symlink_to(checkpoint.path.name)
        link.rename(self.path / "best")

    def remove(self, checkpoint: Checkpoint) -> None:
        shutil.rmtree(checkpoint.path, ignore_errors=True)

    def _sweep(self) -> None:
        """Removes what a killed run left half-written."""
        for child in self.path.iterdir():
            if child.name.startswith(".") and child.is_dir():
                shutil.rmtree(child, ignore_errors=True)


def _refuse_unloadable(value: Any, path: str) -> None:
    """Names anything that `weights_only=True` would refuse to load, before it is written."""
    if isinstance(value, dict):
        for key, child in value.items():
            _refuse_unloadable(child, f"{path}.{key}")
    elif type(value) in (list, tuple):
        for index, child in enumerate(value):
            _refuse_unloadable(child, f"{path}.{index}")
    elif not isinstance(value, _PLAIN):
        raise CheckpointError(
            f"{path} is a {type(value).__module__}.{type(value).__name__}, which cannot be loaded safely. Its "
            "state_dict must hold tensors, numbers, strings, and lists, tuples and dicts of these."
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
