"""Packages depend only downwards, and tests mirror the package file for file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "alfish"
LEVELS = [
    {"child", "collective", "errors", "nest", "progress", "seeding", "specs", "types"},
    {"config"},
    {"environments", "networks", "optimizers", "replay", "summary"},
    {"losses"},
    {"algorithms"},
    {"training"},
    {"playing"},
    {"cli", "collect", "evaluate", "play", "train"},
]
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "alfish":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("alfish."):
            found.add((node.module or "").split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("alfish.")}
    return found


def offences(here: str, rooms: set[str]) -> set[str]:
    if here == "__init__":
        return set()  # re-exports lazily
    level = LEVEL_OF[here]
    allowed = {name for name, other in LEVEL_OF.items() if other < level} | {here}
    if level in (0, 7):  # single modules: they may use each other
        allowed |= LEVELS[level]
    return rooms - allowed


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    assert not offences(room(path), imported_rooms(ast.parse(path.read_text())))


def test_the_check_would_notice_an_import_that_points_up_or_sideways() -> None:
    tree = ast.parse("from alfish.training.trainer import Trainer\nfrom alfish import losses")
    assert offences("networks", imported_rooms(tree)) == {"training", "losses"}
    assert offences("networks", imported_rooms(ast.parse("import alfish.replay.replay_buffer"))) == {"replay"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_has_its_test_file(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    if path.name == "__init__.py":
        return
    assert (PACKAGE.parent / "tests" / relative.parent / f"test_{relative.name}").is_file()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_stay_readable(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350
