"""The run folder: all that `evaluate`, `play` and resume need.

runs/ppo/2026-11-16_10-00-00/
  README.md        what this is and what to do with it, for whoever finds it
  run.json         seed, versions, command line, machine, budget, state, result
  config.gin       as given, flattened, with where each line came from
  operative.gin    as used, with defaults; operative-<iteration>.gin for every change of options
  train/ eval/     TensorBoard events
  progress.csv     the same numbers as a table
  checkpoints/
  snapshots/       files that TrainerConfig.code_snapshots names
  profile/         with TrainerConfig.profiling: where the time went
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import alfish
from alfish.errors import CheckpointError, StorageFault
from alfish.training.checkpoint import CheckpointFolder

_PACKAGES = ("torch", "gymnasium", "numpy", "gin-config")
_HOLDER = re.compile(r"process (\d+) on (\S+),")


class RunFolder:
    """Paths and small files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self.checkpoints = CheckpointFolder(self.path / "checkpoints")
        self._lock: IO[str] | None = None

    @classmethod
    def existing(cls, path: str | Path) -> RunFolder:
        """A folder that a run has written; anything else is an error."""
        folder = cls(path)
        if not (folder.path / "config.gin").is_file():
            what = "is not a run folder (it has no config.gin)" if folder.path.is_dir() else "does not exist"
            raise CheckpointError(f"{folder.path} {what}. A run folder is what --root_dir of alfish.train named")
        return folder

    def open(self) -> None:
        """Makes the folder and locks it against a second run. The kernel drops the lock when the process ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("a+")
        except OSError as error:
            raise StorageFault(f"cannot write to the run folder {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise StorageFault(
                f"{self.path} is in use by {holder}. Wait for it, or choose another --root_dir"
            ) from error
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {platform.node()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        lock.flush()
        self._lock = lock

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    def close(self) -> None:
        """Gives the folder free."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def write_text(self, name: str, text: str) -> None:
        """Replaces a file as a whole."""
        try:
            aside = self.path / f".{name}.aside"
            aside.write_text(text, encoding="utf-8")
            aside.rename(self.path / name)
        except OSError as error:
            raise StorageFault(f"cannot write {self.path / name}: {error.strerror}") from error

    def write_run(self, **facts: Any) -> None:
        """Adds facts to run.json."""
        self.write_text("run.json", json.dumps({**self.read_run(), **facts}, indent=1) + "\n")

    def read_run(self) -> dict[str, Any]:
        file = self.path / "run.json"
        if not file.exists():
            return {}
        try:
            facts: dict[str, Any] = dict(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise CheckpointError(f"{file} cannot be read: {error}") from error
        return facts

    def is_in_use(self) -> bool | None:
        """Whether a run holds the folder; None where that cannot be known. Takes no lock, so it disturbs nobody."""
        lock = self.path / ".lock"
        try:
            holder = _HOLDER.match(lock.read_text())
            if holder is None or holder[2] != platform.node() or not Path("/proc/self/fd").exists():
                return None
            return any(file.resolve() == lock.resolve() for file in Path(f"/proc/{holder[1]}/fd").iterdir())
        except PermissionError:
            return None
        except OSError:  # the process, or the lock, is not there
            return False

    def read_seed(self) -> int | None:
        """The seed of the run so far; None when there was none."""
        seed = self.read_run().get("seed")
        return None if seed is None else int(seed)


def new_folder(parent: Path) -> Path:
    """Makes a folder named after the time. Runs that start in the same second get one each."""
    name = time.strftime("%Y-%m-%d_%H-%M-%S")
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}_{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            number += 1
        except OSError as error:
            raise StorageFault(f"cannot make the run folder {path}: {error.strerror}") from error


def describe_machine(num_threads: int) -> dict[str, Any]:
    """What a result may depend on besides seed and configuration."""
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "torch_threads": num_threads,
        "versions": {"alfish": alfish.__version__, **{name: _version(name) for name in _PACKAGES}},
        "git_revision": _git_revision(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_revision() -> str | None:
    """Of the repository that the working folder is in; None outside of one."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
