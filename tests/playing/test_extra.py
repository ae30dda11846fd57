from __future__ import annotations

import pytest

from alfish.errors import ConfigError
from alfish.playing.extra import require


def test_a_package_comes_with_its_modules():
    assert require("PIL", "PIL.Image").Image.new("L", (1, 1)).size == (1, 1)


def test_what_is_missing_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "av", None)  # as if it were not installed
    with pytest.raises(ConfigError, match=r"^av is needed .* pip install 'alfish\[video\]'$"):
        require("av")
    with pytest.raises(ConfigError, match=r"^pillow is needed"):
        require("PIL", "PIL.NoSuchThing")
