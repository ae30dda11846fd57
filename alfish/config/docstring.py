"""What a docstring says about each argument."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"^[A-Z]\w+:\s*$")
_ARGUMENT = re.compile(r"^\s+\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def summary(docstring: str | None) -> str:
    """The text before the first section (`Args:`, `Returns:`, ...)."""
    lines: list[str] = []
    for line in inspect.cleandoc(docstring or "").splitlines():
        if _SECTION.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def arguments(docstring: str | None) -> dict[str, str]:
    """The entries of the `Args:` section, each on one line."""
    found: dict[str, list[str]] = {}
    inside, indent, name = False, 0, ""
    for line in inspect.cleandoc(docstring or "").splitlines():
        if _SECTION.match(line):
            inside = line.strip() in ("Args:", "Arguments:", "Attributes:")
            indent = 0
            continue
        if not inside or not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = indent or depth
        match = _ARGUMENT.match(line)
        if match and depth == indent:
            name = match[1]
            found[name] = [match[2].strip()]
        elif name:
            found[name].append(line.strip())
    return {name: " ".join(parts).strip() for name, parts in found.items()}
