from __future__ import annotations

from gin import config_parser

from alfish.config.problems import Place
from alfish.config.statements import parse
from alfish.config.values import Macro, Reference


def test_symbols_stay_symbols_and_lines_are_known() -> None:
    statements, problems = parse("\n# c\na/b/X.y = [@s/F(), %M, 3]\nM = 2\n", "f.gin")
    assert problems == []
    (first, place), (second, _) = statements
    assert (first.scope, first.selector, first.arg_name) == ("a/b", "X", "y")
    assert first.value == [Reference("s", "F", True), Macro("M"), 3]
    assert place == Place("f.gin", 3)
    assert (second.selector, second.arg_name) == ("M", "")


def test_blocks_give_each_line_its_place() -> None:
    statements, problems = parse("s/X:\n  a = 1\n\n  b = 2  # why\nY.c = 3\n", "f.gin")
    assert problems == []
    assert [(type(statement), place.line) for statement, place in statements] == [
        (config_parser.BlockDeclaration, 1),
        (config_parser.BindingStatement, 2),
        (config_parser.BindingStatement, 4),
        (config_parser.BindingStatement, 5),
    ]


def test_parsing_goes_on_after_an_error() -> None:
    statements, problems = parse("A.a = 1\nA.b = bare\nA.c = 3\nA.d = (1,\n 2\nA.e = 5\n", "f.gin")
    assert [statement.arg_name for statement, _ in statements] == ["a", "c", "e"]
    assert [problem.place and problem.place.line for problem in problems] == [2, 4]


def test_an_error_in_a_block_does_not_hide_the_rest() -> None:
    statements, problems = parse("X:\n  a = bare\n  b = 2\nY.c = 3\n", "f.gin")
    assert [(p.place and p.place.line, p.message) for p in problems] == [(2, "strings need quotes: 'bare'")]
    assert statements[-1][0].selector == "Y"


def test_a_file_of_nothing_but_errors_ends() -> None:
    statements, problems = parse("A.a = b\n" * 100, "f.gin")
    assert statements == []
    assert len(problems) == 20


def test_strings_over_several_tokens_and_lines() -> None:
    ((statement, _), _), problems = parse("A.a = ('one '\n  'two')\nA.b = 1\n", "f.gin")
    assert problems == []
    assert statement.value == "one two"
