from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import gin
import pytest

from alfish.config.catalog import PACKAGE_ROOT
from alfish.config.registry import configurable


def test_registers_under_the_users_module() -> None:
    @configurable
    def registered_here(x: int = 1) -> int:
        return x

    gin.parse_config(f"{__name__}.registered_here.x = 5")
    assert registered_here() == 5
    assert list(inspect.signature(registered_here).parameters) == ["x"]


def test_alfish_has_one_module_for_all_its_names() -> None:
    import alfish.config.helpers  # noqa: F401

    assert "alfish.multiply" in gin.config._REGISTRY


def test_a_class_stays_itself() -> None:
    class Original:
        def __init__(self, x: int = 1) -> None:
            self.x = x

    made = configurable(Original)
    assert made is Original
    assert type(made()) is Original


def test_methods_are_refused() -> None:
    with pytest.raises(TypeError, match="configurable is for classes and functions, not for methods"):

        class Owner:
            @configurable
            def method(self) -> None: ...


def test_keyword_catch_alls_are_refused() -> None:
    with pytest.raises(TypeError, match=r"a configurable cannot take \*\*options; name its arguments"):

        @configurable
        def swallows(**options: Any) -> None: ...


def test_registering_needs_no_torch() -> None:
    code = "import sys, alfish; alfish.configurable; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PACKAGE_ROOT.parent, check=False).returncode == 0
