"""`import` lines of a .gin: alfish's own, which need no import, and the user's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from alfish.config.problems import Problem, nearest
from alfish.config.record import Import
from alfish.config.scan import Module

_EXTRAS = {
    "ale_py": "atari",
    "mujoco": "mujoco",
    "Box2D": "box2d",
    "envpool": "envpool",
    "av": "video",
    "wandb": "wandb",
}


def is_own(module: str) -> bool:
    """Whether an import line asks for what alfish registers by itself: `import alf.algorithms.ppo_algorithm`."""
    return module.partition(".")[0] in ("alf", "alfish", "__gin__")


def find_source(module: str) -> ModuleSpec | None:
    """Where a module is, without running it or its packages."""
    path = None
    spec = None
    for depth in range(1, module.count(".") + 2):
        name = ".".join(module.split(".")[:depth])
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations) if spec.submodule_search_locations else []
    return spec


def missing_problem(item: Import) -> Problem | None:
    """What to say about a module that cannot be found."""
    if item.module.partition(".")[0] in {*sys.modules, *sys.builtin_module_names}:
        return None
    # `from package import name` may name a function of the package.
    if find_source(item.module) or (item.text.startswith("from") and find_source(item.module.rpartition(".")[0])):
        return None
    top = item.module.partition(".")[0]
    message = f"{item.text}: no module of that name"
    if top in _EXTRAS:
        return Problem((), f"{message}. Install it: pip install 'alfish[{_EXTRAS[top]}]'", item.place)
    folder = Path(item.place.file).parent
    if any((folder / name).exists() for name in (top, f"{top}.py")):
        return Problem((), f"{message} on the path. It is in {folder}: set PYTHONPATH={folder}", item.place)
    installed = [entry.stem for root in sys.path if root for entry in Path(root).glob("*") if entry.stem.isidentifier()]
    close = nearest(top, installed)
    hint = f"Did you mean {close}?" if close else "Is it installed, or on PYTHONPATH?"
    return Problem((), f"{message}. {hint}", item.place)


def source_closure(imports: Iterable[Import]) -> list[tuple[str, Path]]:
    """The source files of the modules, and of those they import from their own package."""
    waiting = [item.module for item in imports]
    found: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        spec = None if name in found else find_source(name)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            continue
        found[name] = Path(spec.origin)
        if b"configurable" not in found[name].read_bytes() and not spec.submodule_search_locations:
            continue
        try:
            imported = Module(name, found[name]).imports.values()
        except SyntaxError:
            # Python will say what is wrong with it, better than we could, when it is imported.
            del found[name]
            continue
        top = name.partition(".")[0]
        for target in imported:
            if target.partition(".")[0] == top:
                waiting.extend([target, target.rpartition(".")[0]])
    return list(found.items())


def import_module(item: Import) -> object:
    """Imports a user's module, or the attribute that `from module import name` names."""
    try:
        return importlib.import_module(item.module)
    except ModuleNotFoundError as error:
        parent, _, name = item.module.rpartition(".")
        if not item.text.startswith("from") or error.name != item.module:
            raise
        return getattr(importlib.import_module(parent), name)
