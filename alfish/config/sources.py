"""Finding and reading .gin files: search path, encoding, includes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from gin import config_parser

from alfish.config.catalog import PACKAGE_ROOT
from alfish.config.history import Past, recorded_history
from alfish.config.problems import Place, Problem, nearest
from alfish.config.statements import Statement, parse

SEARCH_VARIABLE = "ALFISH_CONFIG_PATH"
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Source:
    """A config file as it was read.

    Args:
        label: what messages call it.
        path: where it was found.
        text: without byte order mark.
    """

    label: str
    path: str
    text: str


def shipped_configs() -> Path:
    """The folder of the configs that come with alfish: inside the wheel, or beside the package in a checkout."""
    inside = PACKAGE_ROOT / "configs"
    return inside if inside.is_dir() else PACKAGE_ROOT.parent / "configs"


def search_path() -> list[Path]:
    """Where a bare name is looked up, in order."""
    listed = [Path(entry) for entry in os.environ.get(SEARCH_VARIABLE, "").split(os.pathsep) if entry]
    return [Path(), *listed, shipped_configs()]


@dataclass(frozen=True)
class Line:
    """A statement, where it stands, and what it had overridden when it was written down flattened."""

    statement: Statement
    place: Place
    past: tuple[Past, ...] = ()


@dataclass
class Reading:
    """All statements of some files and of what they include, in the order in which they apply."""

    lines: list[Line] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)

    def read(self, name: str) -> None:
        """Reads a file that the user named."""
        found = _find(name, search_path())
        if found is None:
            self.problems.append(Problem((), f"{name!r}: no such config{_where_looked(name, search_path())}"))
        else:
            self._read_file(*found, included_by=None, chain=())

    def read_text(self, text: str, label: str) -> None:
        """Reads the text of a file that is not at hand."""
        statements, problems = parse(text, label)
        self._take(statements, problems, Path(label), Source(label, label, text), ())

    def _read_file(self, path: Path, label: str, included_by: Place | None, chain: tuple[Path, ...]) -> None:
        try:
            text = _read_text(path, label)
        except _Unreadable as reason:
            self.problems.append(Problem((), str(reason), included_by))
            return
        source = Source(label, str(path.resolve()), text)
        if source not in self.sources:
            self.sources.append(source)
        statements, problems = parse(text, label, included_by)
        self._take(statements, problems, path, source, (*chain, path.resolve()))

    def _take(
        self,
        statements: list[tuple[Statement, Place]],
        problems: list[Problem],
        path: Path,
        source: Source,
        chain: tuple[Path, ...],
    ) -> None:
        self.problems.extend(problems)
        history = recorded_history(source.text)
        for statement, place in statements:
            if isinstance(statement, config_parser.IncludeStatement):
                self._include(statement.filename, place, path, source.label, chain)
            elif place.line in history:
                first, *past = history[place.line]
                self.lines.append(Line(statement, first.place, tuple(past)))
            else:
                self.lines.append(Line(statement, place))

    def _include(self, name: str, place: Place, includer: Path, label: str, chain: tuple[Path, ...]) -> None:
        folders = [includer.parent, *search_path()]
        found = _find(name, folders)
        if found is None:
            message = f"include {name!r} not found{_where_looked(name, folders)}"
            self.problems.append(Problem((), message, place))
            return
        path, found_label = found
        if path.resolve() in chain:
            self.problems.append(Problem((), f"include cycle: {_cycle(place, found_label)}"))
            return
        if path.parent.resolve() == (includer.parent / name).parent.resolve() and not os.path.isabs(name):
            found_label = os.path.normpath(os.path.join(os.path.dirname(label), os.path.dirname(name), path.name))
        self._read_file(path, found_label, place, chain)


class _Unreadable(Exception):
    """The message says which file and why."""


def _find(name: str, folders: list[Path]) -> tuple[Path, str] | None:
    """The file that a name means, and the name with its ending. The ending `.gin` may be left off."""
    expanded = os.path.expanduser(name)
    endings = ("",) if expanded.endswith(".gin") else ("", ".gin")
    # A file with the ending left off comes before a folder of that name: `configs/atari/` beside `configs/atari.gin`.
    for accept in (Path.is_file, Path.exists):
        for folder in folders:
            for ending in endings:
                candidate = folder / f"{expanded}{ending}"
                if expanded and accept(candidate):
                    return candidate, f"{expanded}{ending}"
    return None


def _where_looked(name: str, folders: list[Path]) -> str:
    shown = dict.fromkeys(str(folder) for folder in folders)
    known = {}
    for folder in folders:
        for path in (*folder.glob("*.gin"), *folder.glob("*/*.gin")):
            known[str(path.relative_to(folder).with_suffix(""))] = str(path.relative_to(folder))
    # Compared without the ending, which would make all short names alike.
    stem = nearest(name.removesuffix(".gin"), known)
    close = known[stem] if stem else None
    suggestion = f". Did you mean {close!r}?" if close else ". `alfish list` shows what there is."
    return f"; searched: {', '.join(shown)}{suggestion}"


def _read_text(path: Path, label: str) -> str:
    if path.is_dir():
        inside = ", ".join(sorted(entry.name for entry in path.glob("*.gin"))[:8])
        raise _Unreadable(f"{label}: is a folder, not a config{f'; it holds {inside}' if inside else ''}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _Unreadable(f"{label}: cannot be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise _Unreadable(
            f"{label}: {len(data) / 1e6:.1f} MB is too much for a config (at most {_MAX_BYTES // 10**6} MB)"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _Unreadable(
            f"{label}:{line}: not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        ) from None
    if "\0" in text:
        raise _Unreadable(f"{label}:{text[: text.index(chr(0))].count(chr(10)) + 1}: NUL byte; is this a text file?")
    return text.replace("\r\n", "\n")


def _cycle(place: Place | None, last: str) -> str:
    steps = [last]
    while place is not None:
        steps.insert(0, str(place))
        place = place.included_by
    return " → ".join(steps)
