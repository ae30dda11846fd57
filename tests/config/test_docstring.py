from __future__ import annotations

from alfish.config.docstring import arguments, summary

TEXT = """Does a thing.

    In two paragraphs.

    Args:
        first: what comes first,
            over two lines; ratio: 3.
        second (int): typed.

        third:
            below.

    Returns:
        nothing: at all.
    """


def test_summary_ends_where_sections_begin() -> None:
    assert summary(TEXT) == "Does a thing.\n\nIn two paragraphs."
    assert summary(None) == ""


def test_arguments() -> None:
    assert arguments(TEXT) == {
        "first": "what comes first, over two lines; ratio: 3.",
        "second": "typed.",
        "third": "below.",
    }
    assert arguments("No sections.") == {}
