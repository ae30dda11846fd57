"""Somebody at a terminal, for programs that ask."""

from __future__ import annotations

import os
import sys

import pytest

_END = "<end of what is shown>"


class Terminal:
    """A terminal that standard input and standard error are connected to, and somebody who sits at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.person, program = os.openpty()
        monkeypatch.setattr("sys.stdin", os.fdopen(os.dup(program), "r"))
        monkeypatch.setattr("sys.stderr", os.fdopen(program, "w"))

    def type(self, text: str) -> None:
        os.write(self.person, text.encode())

    def shown(self) -> str:
        """All that was typed and written so far. It arrives in pieces, whenever the kernel comes to it."""
        print(_END, end="", file=sys.stderr, flush=True)
        shown = b""
        while not shown.endswith(_END.encode()):
            shown += os.read(self.person, 4096)
        return shown.decode().removesuffix(_END)
