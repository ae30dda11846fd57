from __future__ import annotations

import pytest

from alfish.config.overrides import parse_override, python_overrides


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A.b=3", 3),
        ("A.b=CartPole-v1", "CartPole-v1"),
        ("A.b='CartPole-v1'", "CartPole-v1"),
        ("A.b=ALE/Pong-v5", "ALE/Pong-v5"),
        ("A.b=my_package:MyEnv-v0", "my_package:MyEnv-v0"),
        ("A.b=/data/run 1", "/data/run 1"),
        ("A.b=it's", "it's"),
        ("A.b=a=b", "a=b"),
        ("A.b = [1, 2]", [1, 2]),
        ("A.b=-1e-3", -1e-3),
        ("A.b=None", None),
    ],
)
def test_values(text: str, value: object) -> None:
    (line,), problems, notes = parse_override(text)
    assert (problems, line.statement.value, str(line.place)) == ([], value, "command line")
    quoted = text.endswith("'")
    assert bool(notes) == (isinstance(value, str) and not quoted)


def test_a_list_with_a_bare_word_is_not_guessed_at() -> None:
    lines, (problem,), notes = parse_override("A.b=[x, 1]")
    assert (lines, notes) == ([], [])
    assert str(problem) == "command line: A.b=[x, 1]: strings need quotes: 'x'"


def test_scopes_from_python() -> None:
    (line,), problems = python_overrides({"a/b/X.y": (1, None)})
    statement = line.statement
    assert problems == []
    assert (statement.scope, statement.selector, statement.arg_name, statement.value) == ("a/b", "X", "y", (1, None))
