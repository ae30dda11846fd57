"""Scalars as a table: `progress.csv`."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alfish.summary.writer import Moment

_MOMENT = ("iterations", "env_steps", "seconds")
_UPDATE = ("updates", *_MOMENT)


class CsvWriter:
    """One row per write: iterations, env_steps, seconds, then the scalars by name.

    A scalar that appears for the first time adds a column; the rows before it stay empty there.

    Args:
        path: of the table; an existing one is continued.
        of_updates: a row for each moment that is an update, with its number in front, and none for the others. False:
            the other way round.
    """

    def __init__(self, path: str | os.PathLike[str], of_updates: bool = False) -> None:
        self._path = Path(path)
        self._of_updates = of_updates
        self._columns = list(_UPDATE if of_updates else _MOMENT)
        self._num_rows = 0
        if self._path.exists():
            self._recover()

    def scalars(self, moment: Moment, values: Mapping[str, float]) -> None:
        if (moment.update is not None) != self._of_updates:
            return
        new = [name for name in values if name not in self._columns]
        if new or not self._path.exists():
            self._rewrite(self._columns + new, self._rows())
        row = {
            "updates": moment.update,
            "iterations": moment.iterations,
            "env_steps": moment.env_steps,
            "seconds": round(moment.seconds, 3),
        }
        line = _lines([[str({**row, **values}.get(column, "")) for column in self._columns]])
        with self._path.open("a", newline="") as file:
            file.write(line)
        self._num_rows += 1

    def text(self, moment: Moment, tag: str, text: str) -> None:
        """A table of numbers has no place for it."""

    def histogram(self, moment: Moment, tag: str, values: npt.NDArray[np.float64]) -> None:
        """A table of numbers has no place for it."""

    def poll(self) -> None:
        """Nothing waits."""

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """The file is open only while a row is written."""

    def state_dict(self) -> dict[str, Any]:
        return {"num_rows": self._num_rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self._num_rows > state["num_rows"]:
            self._rewrite(self._columns, self._rows()[: state["num_rows"]])

    def _recover(self) -> None:
        """Reads the header, and drops a last line that a kill or a full disk left unfinished."""
        text = self._path.read_text()
        lines = text[: text.rfind("\n") + 1]
        if lines != text:
            _replace(self._path, lines)
        table = list(csv.reader(io.StringIO(lines)))
        self._columns = table[0] if table else self._columns
        self._num_rows = max(0, len(table) - 1)

    def _rows(self) -> list[list[str]]:
        if not self._path.exists():
            return []
        with self._path.open(newline="") as file:
            return list(csv.reader(file))[1:]

    def _rewrite(self, columns: list[str], rows: list[list[str]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        padded = [row + [""] * (len(columns) - len(row)) for row in rows]
        _replace(self._path, _lines([columns, *padded]))
        self._columns, self._num_rows = columns, len(rows)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _replace(path: Path, text: str) -> None:
    """Whole or not at all: a full disk must not cost the rows that are there."""
    aside = path.with_name(f"{path.name}.part")
    try:
        aside.write_text(text)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
