"""The source files that a run was made with, kept with its results."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from alfish.summary.summary import Summary

_FOLDER = "snapshots"
_OUTSIDE = "outside"  # of the working folder
_MOST_FILES = 1000
_MOST_BYTES = 10_000_000  # of a file that is copied
_MOST_SHOWN_BYTES = 500_000  # of a file that TensorBoard shows

_log = logging.getLogger(__name__)


def store_code_snapshots(patterns: Sequence[str], root_dir: Path, summary: Summary, iteration: int) -> list[Path]:
    """Copies files to `snapshots/` of the run folder, and shows text in TensorBoard; what cannot be, is warned of.

    Of a file that was changed since the run was stopped, the version of before stays as `agent.py.until-000100`.

    Args:
        patterns: paths or globs (`**` for any depth), from the working folder.
        root_dir: the run folder.
        summary: of the run.
        iteration: where the run starts.

    Returns:
        Where the copies are.
    """
    stored = []
    for file in _matching(patterns, root_dir):
        target = root_dir / _FOLDER / _place(file)
        try:
            size = file.stat().st_size
            if size > _MOST_BYTES:
                _warn(f"{file} is not stored: {size / 1e6:.0f} MB, and {_MOST_BYTES // 10**6} MB are the most")
                continue
            content = file.read_bytes()
            _write(target, content, iteration)
        except OSError as error:
            _warn(f"{file} is not stored: {error.strerror}")
            continue
        stored.append(target)
        _show(summary, _place(file), content)
    return stored


def _matching(patterns: Sequence[str], root_dir: Path) -> list[Path]:
    """Each file once, in the order of the patterns; the run folder is not looked into."""
    found: dict[Path, None] = {}
    run_folder = root_dir.absolute()
    for pattern in patterns:
        files = [file for file in _files(pattern) if not file.is_relative_to(run_folder)]
        if not files:
            _warn(f"no file {pattern!r} in {Path.cwd()}")
        found |= dict.fromkeys(files)
    if len(found) > _MOST_FILES:
        _warn(f"{len(found)} files match, and only the first {_MOST_FILES} are stored. Name fewer")
    return list(found)[:_MOST_FILES]


def _files(pattern: str) -> Iterator[Path]:
    expanded = os.path.expanduser(pattern)
    names = [expanded] if os.path.exists(expanded) else sorted(glob.glob(expanded, recursive=True))
    for name in names:
        if os.path.isfile(name):
            yield Path(os.path.abspath(name))
        elif names == [expanded]:
            _warn(f"{pattern!r} is a folder; name its files, for example {os.path.join(pattern, '**', '*.py')!r}")


def _place(file: Path) -> Path:
    """Of a copy below the folder: as from the working folder."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else Path(_OUTSIDE, *file.parts[1:])


def _write(target: Path, content: bytes, iteration: int) -> None:
    if target.exists() and target.read_bytes() != content:
        target.rename(target.with_name(f"{target.name}.until-{iteration:06d}"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def _show(summary: Summary, name: Path, content: bytes) -> None:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        _warn(f"{name} is stored and not shown in TensorBoard: it is not text")
    elif len(content) > _MOST_SHOWN_BYTES:
        _warn(f"{name} is stored and not shown in TensorBoard: {len(content) / 1e6:.1f} MB are too much to read")
    else:
        summary.text(f"code/{name.as_posix()}", _as_code(text, name.suffix.removeprefix(".")))


def _as_code(text: str, language: str) -> str:
    """Markdown that shows the text as it is: the fence is longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _warn(words: str) -> None:
    _log.warning("TrainerConfig.code_snapshots: %s", words)
