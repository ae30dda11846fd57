"""The options of a run, and how they changed in its course.

`operative.gin` holds the options as they are now. `operative-000100.gin` holds those that the run went on with at
iteration 100, and so on for every change; the first is `operative-000000.gin`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alfish.config.report import read_operative, read_origins
from alfish.errors import CheckpointError
from alfish.training.run_folder import RunFolder

_SEED = "TrainerConfig.random_seed"
_EVALUATION = "eval/"  # the scope of what is used only when the first evaluation begins
_LONGEST = 60
_VERSION = re.compile(r"operative-(\d+)\.gin")


@dataclass(frozen=True)
class OptionChange:
    """An option that a run goes on with in another way."""

    key: str
    old: str | None  # None: was not used
    new: str | None  # None: was not used until now
    place: str  # where the new value was set

    def __str__(self) -> str:
        old = "not used" if self.old is None else _shortened(self.old)
        if self.new is None:
            return f"{self.key}: {old} -> not used so far"
        return f"{self.key}: {old} -> {_shortened(self.new)} ({self.place})"


def option_changes(old: str, new: str, seed: int | None = None) -> list[OptionChange]:
    """The options that differ between two texts of `operative.gin`; those that only one of them uses come last.

    Args:
        old: options of then.
        new: options of now.
        seed: of the run; where none was chosen, it is what the random seed comes to.
    """
    before, now, origins = read_operative(old), read_operative(new), read_origins(new)
    for options in (before, now):
        if seed is not None and options.get(_SEED) == "None":
            options[_SEED] = str(seed)
    changes = [
        OptionChange(key, before.get(key), now.get(key), origins.get(key, ""))
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]
    shared = before.keys() & now.keys()
    others = [change for change in changes if change.key not in shared and not change.key.startswith(_EVALUATION)]
    return [*(change for change in changes if change.key in shared), *others]


def change_lines(changes: Sequence[OptionChange], most: int = 20) -> str:
    """An indented line for each of them, up to `most`."""
    shown = [str(change) for change in changes[:most]]
    more = [f"and {len(changes) - most} more"] if len(changes) > most else []
    return "".join(f"\n    {line}" for line in [*shown, *more])


class OptionHistory:
    """Reads and writes the options of a run.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._began = 0  # iteration, of the version that holds now

    def begin(self, iteration: int, is_changed: bool) -> None:
        """The run starts or goes on. Versions of a later iteration belong to what was lost, and are removed.

        Args:
            iteration: where.
            is_changed: with other options than before.
        """
        for number in self.iterations():
            if number > iteration:
                self._file(number).unlink(missing_ok=True)
        kept = self.iterations()
        self._began = iteration if is_changed or not kept else kept[-1]

    def write(self, text: str) -> None:
        """The options as known now: as a part of a run goes on, more of them may be used."""
        self._folder.write_text("operative.gin", text)
        self._folder.write_text(self._file(self._began).name, text)

    def current(self) -> str | None:
        """The options that the run had last; None when it had none."""
        file = self._folder.path / "operative.gin"
        return _read(file) if file.is_file() else None

    def iterations(self) -> list[int]:
        """Where versions began, in order."""
        names = (_VERSION.fullmatch(file.name) for file in self._folder.path.glob("operative-*.gin"))
        return sorted(int(name[1]) for name in names if name)

    def changes(self, seed: int | None) -> dict[int, list[OptionChange]]:
        """What was changed when the run went on, by iteration."""
        began = self.iterations()
        texts = [_read(self._file(iteration)) for iteration in began]
        return {
            iteration: option_changes(old, new, seed)
            for iteration, old, new in zip(began[1:], texts[:-1], texts[1:], strict=True)
        }

    def _file(self, iteration: int) -> Path:
        return self._folder.path / f"operative-{iteration:06d}.gin"


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error


def _shortened(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}..."
