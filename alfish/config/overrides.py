"""Bindings from the command line and from Python, which win over files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gin import config_parser

from alfish.config.problems import Place, Problem
from alfish.config.sources import Line
from alfish.config.statements import parse
from alfish.config.values import is_literal

COMMAND_LINE = Place("command line")
PYTHON = Place("Python")


def parse_override(text: str) -> tuple[list[Line], list[Problem], list[str]]:
    """The lines of one `--gin_param`, what is wrong with it, and notes.

    A shell removes quotes, so a value that does not parse is taken as a string, and a note says so.
    """
    statements, problems = parse(text, COMMAND_LINE.file)
    if any(isinstance(statement, config_parser.IncludeStatement) for statement, _ in statements):
        return [], [Problem((), f"{text}: give a second --gin_file instead of an include", COMMAND_LINE)], []
    if not problems:
        return [Line(statement, COMMAND_LINE) for statement, _ in statements], [], []
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        return [], [Problem((), f"{text}: expected Name.argument=value", COMMAND_LINE)], []
    if "\n" not in text and _may_be_a_bare_string(value):
        statements, again = parse(f"{key}={value!r}", COMMAND_LINE.file)
        if not again:
            note = f"{COMMAND_LINE}: {key}: {value} read as the string {value!r}"
            return [Line(statement, COMMAND_LINE) for statement, _ in statements], [], [note]
    return [], [Problem((), _naming(problem.message, text), COMMAND_LINE) for problem in problems], []


def _naming(message: str, text: str) -> str:
    return message if text in message else f"{text}: {message}"


def _may_be_a_bare_string(value: str) -> bool:
    return value[:1].isalnum() or value.startswith(("_", ".", "/", "~"))


def python_overrides(values: Mapping[str, Any]) -> tuple[list[Line], list[Problem]]:
    """The lines of values given in Python. What cannot be written in a .gin could not reach a worker: refused."""
    lines, problems = [], []
    for key, value in values.items():
        if not is_literal(value):
            message = (
                f"{type(value).__name__} values cannot be written in a config, so worker processes would not get it"
            )
            problems.append(Problem((key,), message, PYTHON))
            continue
        scope, selector, argument = config_parser.parse_binding_key(key)
        location = config_parser.Location(None, 0, None, "")
        lines.append(Line(config_parser.BindingStatement(scope, selector, argument, value, location), PYTHON))
    return lines, problems
