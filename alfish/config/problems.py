"""What is wrong with a configuration, as records that are collected and reported together."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from alfish.errors import ConfigError


@dataclass(frozen=True)
class Place:
    """Where a statement stands: a line of a file, or the command line."""

    file: str
    line: int | None = None
    included_by: Place | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def chain(self) -> str:
        """How this file came to be read: ` (included by a.gin:1, included by b.gin:2)`, or nothing."""
        steps, place = [], self.included_by
        while place is not None:
            steps.append(f"included by {place}")
            place = place.included_by
        return f" ({', '.join(steps)})" if steps else ""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Args:
        keys: the options concerned, as a config names them: `("TrainerConfig.num_iterations",)`. May be empty.
        message: what is wrong with them and what to do.
        place: where; None lets `format_problems` look the keys up in the config.
        excerpt: the source line and a caret, where that helps.
    """

    keys: tuple[str, ...]
    message: str
    place: Place | None = None
    excerpt: str = ""

    def __str__(self) -> str:
        text = f"{' and '.join(self.keys)}: {self.message}" if self.keys else self.message
        if self.place is not None:
            text = f"{self.place}: {text}{self.place.chain()}"
        return f"{text}\n{self.excerpt}" if self.excerpt else text


class ConfigProblems(ConfigError):
    """A `ConfigError` that knows its parts, so that each can be shown with its file and line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(join_lines([str(problem) for problem in self.problems]))


def join_lines(lines: Sequence[str]) -> str:
    """One line as it is; several under a heading that counts them."""
    if len(lines) == 1:
        return lines[0]
    indented = [line.replace("\n", "\n  ") for line in lines]
    return f"{len(lines)} problems in the configuration\n  " + "\n  ".join(indented)


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was probably meant to be, whatever its case."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None
