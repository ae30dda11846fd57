from __future__ import annotations

from alfish.config.history import Past, recorded_history, write_history, writer_version
from alfish.config.problems import Place

TEXT = """\
# alfish 1.2 config, flattened

# a.gin:3
#   overrides b.gin:4: 'x: y'
#   overrides C:\\c d.gin:5: 1
X.y = 2

# command line
Z = 'a
"""


def test_written_history_is_read_back() -> None:
    history = [
        Past(Place("a.gin", 3), ""),
        Past(Place("b.gin", 4), "'x: y'"),
        Past(Place("C:\\c d.gin", 5), "1"),
    ]
    text = write_history("1.2", [("X.y = 2", history), ("Z = 'a", [Past(Place("command line"), "")])])
    assert text == TEXT
    assert recorded_history(text) == {6: history, 9: [Past(Place("command line"), "")]}
    assert writer_version(text) == "1.2"


def test_other_comments_are_no_history() -> None:
    assert recorded_history("# a.gin:3\nX.y = 1\n") == {}
    assert writer_version("# a comment") is None
