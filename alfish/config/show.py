"""What `alfish list`, `describe` and `explain` print. Reads source and text only: no torch."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from alfish.config import docstring
from alfish.config.catalog import PACKAGE_ROOT, Catalog, Configurable
from alfish.config.problems import nearest
from alfish.config.record import Binding, Config
from alfish.config.scan import Name
from alfish.config.sources import shipped_configs
from alfish.config.values import render
from alfish.errors import ConfigError


def list_text(configurables: Iterable[Name]) -> str:
    """The shipped configs with their descriptions, then the configurables by package."""
    lines = ["Configs (alfish train NAME):"]
    root = shipped_configs()
    for path in sorted(root.rglob("*.gin")):
        name = path.relative_to(root).as_posix()
        if not name.startswith("base/"):
            lines.extend(_config_lines(name, path))
    packages: dict[str, list[str]] = {}
    for name, module in configurables:
        packages.setdefault(module.split(".")[1] if "." in module else module, []).append(name)
    lines.append("\nConfigurables (alfish describe NAME):")
    for package in sorted(packages):
        names = ", ".join(sorted(packages[package], key=str.lower))
        lines.append(textwrap.fill(names, 100, initial_indent=f"  {package}: ", subsequent_indent="    "))
    return "\n".join(lines)


def _config_lines(name: str, path: Path) -> Iterator[str]:
    comments = []
    for line in path.read_text(encoding="utf-8-sig").splitlines():
        if not line.startswith("#"):
            break
        comments.append(line.lstrip("#").strip())
    yield f"  {name:<28} {comments[0] if comments else ''}".rstrip()
    if len(comments) > 1:
        yield f"  {'':<28} {comments[1]}"


def describe_text(catalog: Catalog, selector: str) -> str:
    """Arguments, types, defaults, documentation and file of a configurable."""
    name, argument = _find(catalog, selector)
    entry = catalog.matching(name)[0]
    path = Path(entry.path)
    shown = path.relative_to(PACKAGE_ROOT.parent) if path.is_relative_to(PACKAGE_ROOT.parent) else path
    lines = [f"{entry.name}  ({'class' if entry.is_class else 'function'}, {shown}:{entry.line})", ""]
    lines.extend(textwrap.indent(docstring.summary(entry.doc), "  ").splitlines())
    for parameter in entry.parameters:
        if argument and parameter.name != argument:
            continue
        lines.append(f"\n  {parameter.name}: {parameter.type_text or 'any value'}, {parameter.default_text}")
        if parameter.doc:
            lines.append(textwrap.fill(parameter.doc, 100, initial_indent="      ", subsequent_indent="      "))
    if entry.is_open:
        lines.append("\n  and arguments that a base class outside of alfish takes")
    return "\n".join(lines)


def _find(catalog: Catalog, selector: str) -> tuple[str, str]:
    """The name, and the argument if the selector is `Name.argument`."""
    if catalog.matching(selector):
        return selector, ""
    name, _, argument = selector.rpartition(".")
    if name and catalog.matching(name):
        known = [parameter.name for parameter in catalog.matching(name)[0].parameters]
        if argument in known:
            return name, argument
        close = nearest(argument, known)
        raise ConfigError(f"{selector}: no such option." + (f" Did you mean {name}.{close}?" if close else ""))
    close = nearest(selector, catalog.by_name)
    raise ConfigError(f"{selector}: no such name. " + (f"Did you mean {close}?" if close else "See `alfish list`."))


def explain_text(config: Config, catalog: Catalog, key: str | None) -> str:
    """Where values came from: one key, or all that are set."""
    if key is None:
        return "\n".join(line for binding in config.bindings for line in _history(binding, catalog))
    exact = config.binding(key)
    matching = [exact] if exact else [b for b in config.bindings if b.key.endswith((f"/{key}", f".{key}"))]
    if matching:
        return "\n".join(line for binding in matching for line in _history(binding, catalog))
    name, argument = _find(catalog, key.rpartition("/")[2])
    parameter = catalog.matching(name)[0].parameter(argument) if argument else None
    if parameter is None:
        set_here = [b for b in config.bindings if b.name == catalog.matching(name)[0].name]
        if not set_here:
            return f"{name}: nothing is set; all options have their defaults"
        return "\n".join(line for binding in set_here for line in _history(binding, catalog))
    return f"{key} = {parameter.default}\n  default, {_source(catalog.matching(name)[0])}"


def _history(binding: Binding, catalog: Catalog) -> Iterator[str]:
    yield f"{binding.key} = {render(binding.value)}"
    yield f"  {binding.place}{binding.place.chain()}"
    for past in binding.past:
        yield f"  overrides {past.value}, {past.place}"
    entry = catalog.get(binding.name) if binding.name else None
    parameter = entry.parameter(binding.argument) if entry is not None else None
    if entry is not None and parameter is not None and parameter.default is not None:
        yield f"  overrides {parameter.default}, default, {_source(entry)}"


def _source(entry: Configurable) -> str:
    path = Path(entry.path)
    shown = path.relative_to(PACKAGE_ROOT.parent) if path.is_relative_to(PACKAGE_ROOT.parent) else path
    return f"{shown}:{entry.line}"
