"""A configuration as one text that says where each line came from, and reading that back.

```
# alfish 0.1.0 config, flattened

# ppo.gin:12
#   overrides base/ppo.gin:3: 500
TrainerConfig.num_iterations = 1000
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from alfish.config.problems import Place

_HEADER = re.compile(r"# alfish (\S+) config, flattened$")
_OVERRIDES = re.compile(r"#   overrides (.+?): (.*)$")


@dataclass(frozen=True)
class Past:
    """A value that an option was given somewhere, as gin text."""

    place: Place
    value: str


def write_history(version: str, entries: Iterable[tuple[str, Sequence[Past]]]) -> str:
    """The text of statements, each with its history: first where it stands, then what it overrode, newest first."""
    blocks = [f"# alfish {version} config, flattened\n"]
    for statement, history in entries:
        lines = [f"# {history[0].place}"] if history else []
        lines.extend(f"#   overrides {past.place}: {past.value}" for past in history[1:])
        blocks.append("\n".join([*lines, statement, ""]))
    return "\n".join(blocks)


def recorded_history(text: str) -> dict[int, list[Past]]:
    """The history of each statement of a flattened text by its line; nothing for any other text."""
    lines = text.splitlines()
    found: dict[int, list[Past]] = {}
    if not lines or not _HEADER.match(lines[0]):
        return found
    pending: list[Past] = []
    for number, line in enumerate(lines[1:], start=2):
        overrides = _OVERRIDES.match(line)
        if overrides:
            pending.append(Past(_place(overrides[1]), overrides[2]))
        elif line.startswith("# "):
            pending = [Past(_place(line[2:]), "")]
        elif line and pending:
            found[number] = pending
            pending = []
    return found


def writer_version(text: str) -> str | None:
    """The version of alfish that wrote a flattened text."""
    match = _HEADER.match(text.partition("\n")[0])
    return match[1] if match else None


def _place(text: str) -> Place:
    file, _, line = text.rpartition(":")
    return Place(file, int(line)) if file and line.isdigit() else Place(text)
