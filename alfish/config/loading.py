"""Loading a configuration: read and check without importing anything heavy, then import, bind, lock."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import alfish
from alfish.config import gin_state
from alfish.config.catalog import PACKAGE_ROOT, Catalog, describe_object
from alfish.config.check import check
from alfish.config.history import writer_version
from alfish.config.modules import import_module, missing_problem, source_closure
from alfish.config.overrides import parse_override, python_overrides
from alfish.config.problems import ConfigProblems, Problem
from alfish.config.record import Binding, Config, Import
from alfish.config.resolve import collect_imports, resolve
from alfish.config.scan import scan
from alfish.config.sources import Line, Reading
from alfish.config.values import Reference, walk

logger = logging.getLogger(__name__)


def load(
    files: Sequence[str] = (),
    bindings: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    roots: Sequence[Path] = (PACKAGE_ROOT,),
) -> Config:
    """Reads, checks and installs a configuration; gin is locked afterwards.

    Args:
        files: configs by name or path; later ones win.
        bindings: `Name.argument=value`, as on the command line; they win over files.
        overrides: values from Python by key; they win over all.
        roots: package folders whose configurables exist.

    Raises:
        ConfigProblems: everything that is wrong, with file and line.
    """
    draft = _draft(files, bindings, overrides or {}, roots)
    config = draft.config
    modules = {entry.module for entry in draft.catalog if _is_under(entry.path, roots)}
    _import_all(sorted(modules), config.imports, config)
    if draft.needs_imports:
        config = draft.check_again()
    _install(config)
    for note in config.notes:
        logger.info("%s", note)
    for warning in config.warnings:
        logger.warning("%s", warning)
    return config


def read(files: Sequence[str] = (), bindings: Sequence[str] = (), roots: Sequence[Path] = (PACKAGE_ROOT,)) -> Config:
    """As `load`, but only reads and checks: nothing is imported and gin is not touched."""
    return _draft(files, bindings, {}, roots).config


def register_all(roots: Sequence[Path] = (PACKAGE_ROOT,)) -> tuple[str, ...]:
    """Imports every module of alfish that defines something configurable; returns their names."""
    modules = sorted({entry.module for entry in scan(roots)})
    for module in modules:
        importlib.import_module(module)
    return tuple(modules)


def install_text(text: str, homes: Mapping[str, gin_state.Home], label: str) -> Config:
    """Installs a flattened text that was checked before, in another process; imports the user's modules only."""
    reading = Reading()
    reading.read_text(text, label)
    imports, _ = collect_imports(reading.lines)
    config = Config((), (), tuple(imports), resolve(reading.lines, Catalog()).bindings)
    _import_all([], imports, config)
    gin_state.install_late(config, homes)
    return config


@dataclass(frozen=True)
class _Draft:
    """A configuration that is checked as far as that is possible without importing the user's modules."""

    config: Config
    catalog: Catalog
    lines: tuple[Line, ...]
    needs_imports: bool

    def check_again(self) -> Config:
        """The check with everything that is registered now."""
        known = {entry.selector for entry in self.catalog}
        objects = {name: obj for name, obj in gin_state.registered().items() if name not in known}
        catalog = self.catalog + [describe_object(obj, name) for name, obj in objects.items()]
        resolved = resolve(self.lines, catalog)
        checked = check(resolved, catalog, is_constant=gin_state.is_constant)
        _raise_if_any(checked.problems, self.config)
        return replace(self.config, bindings=checked.bindings, notes=(*self.config.notes, *checked.notes))


def _draft(
    files: Sequence[str], bindings: Sequence[str], overrides: Mapping[str, Any], roots: Sequence[Path]
) -> _Draft:
    reading = Reading()
    notes: list[str] = []
    for file in files:
        reading.read(file)
    for text in bindings:
        lines, problems, said = parse_override(text)
        reading.lines.extend(lines)
        reading.problems.extend(problems)
        notes.extend(said)
    lines, problems = python_overrides(overrides)
    reading.lines.extend(lines)
    problems = [*reading.problems, *problems]
    imports, said = collect_imports(reading.lines)
    notes.extend(said)
    problems.extend(problem for item in imports if (problem := missing_problem(item)) is not None)
    catalog = scan(roots, source_closure(imports))
    resolved = resolve(reading.lines, catalog)
    checked = check(resolved, catalog, trust_unknown=bool(imports))
    empty = [f"{source.label}: sets nothing" for source in reading.sources if not source.text.strip()]
    config = Config(
        tuple(reading.sources),
        tuple(bindings),
        tuple(imports),
        checked.bindings,
        notes=(*notes, *resolved.notes, *checked.notes),
        warnings=(*resolved.warnings, *empty),
    )
    _raise_if_any([*problems, *checked.problems], config)
    return _Draft(config, catalog, tuple(reading.lines), needs_imports=checked.unknown and bool(imports))


def _is_under(path: str, roots: Sequence[Path]) -> bool:
    return any(Path(path).is_relative_to(root) for root in roots)


def _raise_if_any(problems: Sequence[Problem], config: Config) -> None:
    if not problems:
        return
    order = [source.label for source in config.sources]

    def position(problem: Problem) -> tuple[int, int]:
        place = problem.place
        if place is None:
            return (-1, 0)
        return (order.index(place.file) if place.file in order else len(order), place.line or 0)

    raise ConfigProblems([*sorted(problems, key=position), *_newer_writer(config)])


def _newer_writer(config: Config) -> list[Problem]:
    """A hint where a file was written by another version, which may know other options."""
    others = {source.label: writer_version(source.text) for source in config.sources}
    return [
        Problem((), f"{label}: was written by alfish {version}; this is alfish {alfish.__version__}")
        for label, version in others.items()
        if version not in (None, alfish.__version__)
    ]


def _import_all(modules: Sequence[str], imports: Sequence[Import], config: Config) -> None:
    for module in modules:
        importlib.import_module(module)
    problems = []
    local: dict[str, object] = {}
    for item in imports:
        try:
            imported = import_module(item)
        except Exception as error:
            problems.append(Problem((), f"{item.text}: {type(error).__name__}: {error}", item.place))
            continue
        is_plain = item.text == f"import {item.module}"
        local[item.local_name] = importlib.import_module(item.local_name) if is_plain else imported
    _raise_if_any(problems, config)
    _register_dotted_names(config.bindings, local)


def _register_dotted_names(bindings: Sequence[Binding], local: Mapping[str, object]) -> None:
    """Makes `@torch.nn.Tanh` known where the config says `import torch.nn`."""
    names = [binding.name for binding in bindings if binding.name]
    names.extend(leaf.name for binding in bindings for leaf in walk(binding.value) if isinstance(leaf, Reference))
    for name in dict.fromkeys(names):
        head, *rest = name.split(".")
        if head not in local or not rest or gin_state.is_registered(name):
            continue
        obj: Any = local[head]
        for part in rest:
            obj = getattr(obj, part, None)
        if callable(obj):
            gin_state.register_external(obj, name)


def _install(config: Config) -> None:
    problems = []
    for binding, error in gin_state.install(config):
        message = str(error).partition("\n")[0].strip("\"'")
        keys, place = ((binding.key,), binding.place) if binding is not None else ((), None)
        problems.append(Problem(keys, message, place))
    _raise_if_any(problems, config)
