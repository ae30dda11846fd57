"""How much memory there is, asked before it is taken."""

from __future__ import annotations

from pathlib import Path

from alfish.errors import ConfigError

_USABLE = 0.9  # of what is available; the networks and the environments need some too


def check_memory(row_nbytes: int, num_environments: int, max_length: int, root: Path = Path("/")) -> None:
    """Refuses a buffer that would not fit, and says which would.

    Args:
        row_nbytes: of one time step of one environment.
        num_environments: rings.
        max_length: time steps kept per environment.
        root: of the file system that tells about memory.
    """
    available = available_memory(root)
    needed = row_nbytes * num_environments * max_length
    if available is None or needed <= _USABLE * available:
        return
    fits = int(_USABLE * available / (row_nbytes * num_environments))
    raise ConfigError(
        f"TrainerConfig.replay_buffer_length = {max_length}: {num_environments} environments x {max_length} steps x "
        f"{row_nbytes} bytes need {needed / 1e9:.1f} GB, {available / 1e9:.1f} GB are available. "
        f"replay_buffer_length = {_rounded_down(fits)} fits. Images take a quarter as uint8."
    )


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that can still be taken: of the machine or of this process's cgroup, whichever is less. None: unknown."""
    known = [amount for amount in (_of_machine(root), *_of_cgroups(root)) if amount is not None]
    return min(known, default=None)


def _of_machine(root: Path) -> int | None:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_cgroups(root: Path) -> list[int | None]:
    """What the limits of the own cgroup and of those around it leave; version 2, then version 1."""
    paths = [line.split(":", 2) for line in _read(root / "proc/self/cgroup").splitlines() if line.count(":") >= 2]
    left: list[int | None] = []
    for _, controllers, path in paths:
        if controllers == "":
            base, limit, usage, cache = "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            base, limit, usage = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        own = Path(path.strip("/"))
        for folder in (own, *own.parents):
            left.append(_left(root / base / folder, limit, usage, cache))
    return left


def _left(folder: Path, limit: str, usage: str, cache: str) -> int | None:
    most, used = _read(folder / limit).strip(), _read(folder / usage).strip()
    if not (most.isdigit() and used.isdigit()):  # no such group, or no limit ("max")
        return None
    statistics = dict(line.split() for line in _read(folder / "memory.stat").splitlines() if line.count(" ") == 1)
    reclaimable = int(statistics.get(cache, 0))
    return max(0, int(most) - int(used) + reclaimable)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _rounded_down(number: int) -> int:
    """To two digits: available memory changes from moment to moment."""
    step = 10 ** max(0, len(str(number)) - 2)
    return number // step * step
