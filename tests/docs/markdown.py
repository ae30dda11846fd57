"""Reading code blocks, commands and links from the project's own documents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the output that is shown below it."""

    line: str
    output: str


def blocks(page: Path) -> list[tuple[str, str]]:
    """The info string and the text of every fenced block."""
    return _FENCE.findall(page.read_text(encoding="utf-8"))


def file_block(page: Path, name: str) -> str:
    """The block that is a file of this name."""
    return next(text for info, text in blocks(page) if info.endswith(f" {name}"))


def commands(page: Path) -> list[Command]:
    """The commands of all console blocks, in order."""
    found = []
    for info, text in blocks(page):
        if info == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                found.append(Command(line, output))
    return found


def links(page: Path) -> list[str]:
    """Targets of links, outside code blocks."""
    return re.findall(r"\]\(([^)]+)\)", _FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """What `#...` can point at."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
