"""Runs alfish as a user does, and looks for what it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
MARK = "ALFISH_FAULT_TEST"
_PATIENCE = 3.0


class Result(NamedTuple):
    """How a run ended."""

    rc: int
    out: str
    err: str
    folder: Path  # the run folder


@dataclass
class Alfish:
    """`python -m alfish.train` in a folder of its own; its processes carry a mark in their environment."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A run that is under way. It leads a process group, as a command of a shell does."""
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), MARK: self.mark}
        return subprocess.Popen(
            [sys.executable, "-m", "alfish.train", f"--root_dir={self.folder / 'run'}", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str], timeout: float = 120.0) -> Result:
        """Waits for the end of a run; one that does not end is killed, and fails the test."""
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"the run did not end within {timeout:g} s\n{out}\n{err}")
        return Result(process.returncode, out, err, self.folder / "run")

    def processes(self) -> list[int]:
        """The processes that this test started and that are alive. A zombie is dead."""
        return [pid for pid in _pids() if _is_alive(pid) and _environment(pid).get(MARK) == self.mark]


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _environment(pid: int) -> Mapping[str, str]:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))  # noqa: S108


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@pytest.fixture
def alfish(tmp_path: Path) -> Iterator[Alfish]:
    """To start and finish runs; whatever is left of them is killed in the end."""
    runs = Alfish(tmp_path)
    yield runs
    for pid in runs.processes():
        os.kill(pid, 9)


@pytest.fixture
def run_alfish(alfish: Alfish) -> Callable[..., Result]:
    """Trains with the arguments of the command line, to the end."""
    return lambda *arguments, timeout=120.0: alfish.finish(alfish.start(*arguments), timeout)


@pytest.fixture
def assert_clean(alfish: Alfish) -> Iterator[Callable[[], None]]:
    """Asserts, when called and at the end of the test, that nothing of the runs is left.

    Processes may take a moment to go. Other programs may have made shared memory meanwhile: of the new names, only
    those that stay count.
    """
    before = _shared_memory()

    def check() -> None:
        wait_until(lambda: not alfish.processes(), _PATIENCE)
        assert alfish.processes() == []
        wait_until(lambda: not _shared_memory() - before, _PATIENCE)
        assert _shared_memory() - before == set()

    yield check
    check()
