"""Reading the tables of the pages for users of other libraries, and running the configs they show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import alfish
from alfish.config.catalog import Catalog, Parameter
from alfish.config.scan import scan
from alfish.training.results import TrainResult
from alfish.training.trainer import Trainer
from tests.docs.markdown import file_block

_QUIET = ("TrainerConfig.verbose=False", "TrainerConfig.show_progress=False", "TrainerConfig.async_eval=False")
_FILE_SUFFIXES = {"csv", "gin", "json", "md", "py"}


@dataclass(frozen=True)
class Row:
    """A row of a table, and the headings that it stands under."""

    section: str
    subsection: str
    cells: tuple[str, ...]


def rows(page: Path) -> list[Row]:
    """The rows of all tables, without their heads."""
    found: list[Row] = []
    section = subsection = ""
    is_head = True
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section, subsection = line.removeprefix("## "), ""
        elif line.startswith("### "):
            subsection = line.removeprefix("### ")
        if not line.startswith("|"):
            is_head = True
        elif set(line) <= set("|-"):
            is_head = False
        elif not is_head:
            found.append(Row(section, subsection, tuple(cell.strip() for cell in line.strip("|").split(" | "))))
    return found


def words(text: str) -> list[str]:
    """Single names that are shown as code."""
    return re.findall(r"`(\w+)`", text)


def keys(text: str) -> list[str]:
    """`Name.argument` and `Name.argument = value` that are shown as code."""
    found = re.findall(r"`(\w+\.\w+)(?: = [^`]+)?`", text)
    return [key for key in found if key.rpartition(".")[2] not in _FILE_SUFFIXES]


@cache
def catalog() -> Catalog:
    """All that alfish has; reading it takes a second."""
    return scan()


def parameter(key: str) -> Parameter | None:
    """The argument that a key binds; None if there is none."""
    owner, _, name = key.partition(".")
    entry = catalog().get(owner)
    return None if entry is None else entry.parameter(name)


def unknown_names(texts: Iterable[str]) -> list[str]:
    """Keys and references that alfish does not have; there must be some that it has."""
    text = "\n".join(texts)
    references = re.findall(r"`@(?:\w+/)?(\w+)(?:\(\))?`", text)
    assert keys(text)
    assert references
    unknown = [key for key in keys(text) if parameter(key) is None]
    return unknown + [name for name in references if catalog().get(name) is None]


def train_block(page: Path, name: str, *bindings: str) -> tuple[Trainer, TrainResult]:
    """Trains the config that a page shows, from the working folder, with other bindings on top."""
    Path(name).write_text(file_block(page, name), encoding="utf-8")
    alfish.load_config([name], [*_QUIET, *bindings])
    trainer = Trainer(root_dir="run")
    return trainer, trainer.train()
