"""A buffer that does not fit is refused before anything is allocated."""

from __future__ import annotations

from pathlib import Path

import pytest

from alfish.errors import ConfigError
from alfish.replay.memory import available_memory, check_memory

GB = 10**9


def machine(root: Path, free: int, cgroup: str = "") -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable:   {free // 1024} kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    return root


def group(root: Path, path: str, files: dict[str, str]) -> None:
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def test_without_limits_the_machine_counts(tmp_path: Path) -> None:
    assert available_memory(machine(tmp_path, 1024 * 1000)) == 1024 * 1000


def test_the_tightest_group_around_the_process_counts(tmp_path: Path) -> None:
    root = machine(tmp_path, 50 * GB, "0::/jobs/mine\n")
    group(root, "jobs/mine", {"memory.max": "max\n", "memory.current": "5\n"})
    statistics = f"anon 7\ninactive_file {GB}\n"
    group(root, "jobs", {"memory.max": f"{4 * GB}\n", "memory.current": f"{3 * GB}\n", "memory.stat": statistics})
    assert available_memory(root) == 2 * GB  # cached files give way


def test_groups_of_the_first_version_count_too(tmp_path: Path) -> None:
    root = machine(tmp_path, 50 * GB, "12:cpu:/x\n4:memory,hugetlb:/x\n")
    group(root, "memory/x", {"memory.limit_in_bytes": f"{3 * GB}", "memory.usage_in_bytes": f"{GB}"})
    assert available_memory(root) == 2 * GB


def test_where_nothing_is_known_nothing_is_refused(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None
    check_memory(10**9, 8, 10**9, tmp_path)


def test_the_refusal_names_the_need_and_a_length_that_fits(tmp_path: Path) -> None:
    root = machine(tmp_path, 23 * GB)
    with pytest.raises(
        ConfigError, match=r"replay_buffer_length = 1250000: .*need 282\.2 GB, 23\.0 GB are available"
    ) as e:
        check_memory(28224, 8, 1_250_000, root)
    assert "replay_buffer_length = 91000 fits" in str(e.value)
    check_memory(28224, 8, 91_000, root)
    with pytest.raises(ConfigError):
        check_memory(28224, 8, 92_000, root)
