"""What `import alfish` gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import alfish


def test_public_names_resolve_and_are_listed() -> None:
    for name in alfish.__all__:
        assert getattr(alfish, name) is not None
        assert name in dir(alfish)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'alfish' has no attribute 'nope'"):
        alfish.nope  # noqa: B018


def test_importing_imports_no_torch() -> None:
    code = "import sys, alfish; sys.exit(bool({'torch', 'gymnasium', 'gin'} & set(sys.modules)))"
    root = Path(alfish.__file__).parent.parent
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_typed() -> None:
    assert (Path(alfish.__file__).parent / "py.typed").exists()
