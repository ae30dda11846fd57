"""Parses .gin text with gin's own parser, keeping symbols symbolic and every line known, and survives errors.

gin stops at the first syntax error; here the parser starts again after the broken statement, so that all errors of
a file are reported together.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from typing import Any, TypeAlias

from gin import config_parser

from alfish.config.problems import Place, Problem
from alfish.config.values import Macro, Reference

Statement: TypeAlias = (
    config_parser.BindingStatement
    | config_parser.ImportStatement
    | config_parser.IncludeStatement
    | config_parser.BlockDeclaration
)

_MAX_SYNTAX_ERRORS = 20
_STATEMENT_START = re.compile(r"(import|from|include)\s|[A-Za-z_][\w./]*\s*[=:]")
_BRACKETS = {")": "(", "]": "[", "}": "{"}


class _Symbols(config_parser.ParserDelegate):  # type: ignore[misc]
    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
        scope, _, name = scoped_configurable_name.rpartition("/")
        return Reference(scope, name, evaluate)

    def macro(self, macro_name: str) -> Macro:
        return Macro(macro_name)


class _Parser(config_parser.ConfigParser):  # type: ignore[misc]
    """gin's parser with messages for people in place of those for people who know gin's parser."""

    def parse_value(self) -> Any:
        token = self.current_token
        if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER, tokenize.COMMENT):
            self._raise_syntax_error("missing value")
        if token.type == tokenize.NAME and token.string not in ("True", "False", "None") and not _is_prefix(token):
            self._raise_syntax_error(_bare_word(token))
        if token.type == tokenize.ERRORTOKEN and token.string[:1] in "'\"":
            self._raise_syntax_error(f"unbalanced quote in {token.line.strip()}")
        return super().parse_value()

    def _raise_syntax_error(self, msg: str, location: Any = None) -> None:
        super()._raise_syntax_error(_in_plain_words(msg, self.current_token), location)


def _is_prefix(token: tokenize.TokenInfo) -> bool:
    """Whether a name is the prefix of a string: b'...', r'...' is one token only in newer Pythons."""
    return token.line[token.end[1] : token.end[1] + 1] in ("'", '"')


def _bare_word(token: tokenize.TokenInfo) -> str:
    words = token.line[token.start[1] :].partition("#")[0].strip()
    if token.line[token.end[1] : token.end[1] + 1] == "(":
        return f"{words}: calls are not values. Write a literal ({{'x': 1}}), or @{token.string}() for a configurable"
    if token.string in ("inf", "nan"):
        return f"{token.string} is not a gin value; infinity is written 1e999"
    word = re.match(r"[^\s,)\]}]+", words)
    return f"strings need quotes: '{word[0] if word else words}'"


def _in_plain_words(message: str, token: tokenize.TokenInfo) -> str:
    text = token.string.strip() or "end of line"
    if message.startswith("Expected newline"):
        if text == ";":
            return "one binding per line: put the second one on its own line, or in its own --gin_param"
        return f"unexpected {text!r} after the value; gin has no expressions, see `alfish describe multiply` and `item`"
    if message.startswith("Expected ')'"):
        return "a reference takes no arguments here; bind them on their own line: Name.argument = value"
    if message.startswith("Couldn't parse statement"):
        return f"expected '=' or ':' before {text!r}"
    if message.startswith("Unable to parse value"):
        return f"{text!r} is not a value"
    if message.startswith(("Unexpected token", "Malformatted")):
        return f"expected Name.argument = value, found {text!r}"
    if "Failed to parse token" in message:
        shown = text if len(text) <= 40 else f"{text[:20]}... ({len(text)} characters)"
        return f"{shown} is not a value"
    return message.rstrip(".").replace("  Got", "; got") if message[:1].isupper() else message


def parse(
    text: str, file: str, included_by: Place | None = None
) -> tuple[list[tuple[Statement, Place]], list[Problem]]:
    """All statements of a text with their places, and what is wrong with the others."""
    statements: list[tuple[Statement, Place]] = []
    problems: list[Problem] = []
    lines = text.splitlines(keepends=True)
    start = 0
    while start < len(lines) and len(problems) < _MAX_SYNTAX_ERRORS:
        # Blank lines in place of those already read keep the line numbers right.
        remaining = "\n" * start + "".join(lines[start:])
        try:
            for statement in _statements(remaining):
                statements.append((statement, Place(file, statement.location.line_num, included_by)))
            break
        except _STOPPERS as error:
            line, column, message = _explain(error, remaining)
            # A bracket left open swallows the lines below it: what is wrong is the bracket, not the next statement.
            opened = _unclosed("".join(remaining.splitlines(keepends=True)[: line - 1]))
            if opened is not None and line <= len(lines) and _STATEMENT_START.match(lines[line - 1]):
                line, column, message = opened.start[0], opened.start[1], f"unclosed {opened.string!r}"
            problems.append(_problem(lines, line, column, message, Place(file, line, included_by)))
            start = _next_statement(lines, line)
    return statements, problems


_STOPPERS = (SyntaxError, tokenize.TokenError, RecursionError, ValueError)


def _statements(text: str) -> Iterator[Statement]:
    yield from _Parser(text, _Symbols())


def _explain(error: Exception, text: str) -> tuple[int, int | None, str]:
    """Line, column and message of a parse error."""
    if isinstance(error, tokenize.TokenError):
        opened = _unclosed(text)
        if opened is not None:
            return opened.start[0], opened.start[1], f"unclosed {opened.string!r}"
        return error.args[1][0], None, f"{error.args[0]}: a quote or bracket is not closed"
    if isinstance(error, RecursionError):
        deepest = max(enumerate(text.splitlines(), 1), key=lambda line: sum(map(line[1].count, "([{")))
        return deepest[0], None, "too deeply nested"
    if isinstance(error, SyntaxError):
        location = error.args[1] if len(error.args) > 1 else (None, error.lineno, error.offset, "")
        return location[1] or 1, location[2], str(error.args[0])
    return 1, None, str(error)


def _unclosed(text: str) -> tokenize.TokenInfo | None:
    stack: list[tokenize.TokenInfo] = []
    reader = iter(text.splitlines(keepends=True))
    try:
        for token in tokenize.generate_tokens(lambda: next(reader, "")):
            if token.string in _BRACKETS.values():
                stack.append(token)
            elif token.string in _BRACKETS and stack and stack[-1].string == _BRACKETS[token.string]:
                stack.pop()
    except (tokenize.TokenError, SyntaxError):
        pass
    return stack[-1] if stack else None


def _problem(lines: list[str], line: int, column: int | None, message: str, place: Place) -> Problem:
    source = lines[line - 1].rstrip() if line <= len(lines) else ""
    if not source or len(source) > 200:
        return Problem((), message, place)
    caret = f"\n    {' ' * column}^" if column else ""
    return Problem((), message, place, excerpt=f"    {source}{caret}")


def _next_statement(lines: list[str], line: int) -> int:
    """The index of the first line after `line` at which a statement can begin."""
    for index in range(line, len(lines)):
        if _STATEMENT_START.match(lines[index]):
            return index
    return len(lines)
