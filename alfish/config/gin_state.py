"""The one module that touches gin's global state, and the state of our own that goes with it.

gin keeps one configuration per process. What alfish knows about that configuration (where it came from, what
worker processes used of it) is as global as gin's, and lives here beside it.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util  # gin 0.5 uses it without importing it
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gin
from gin import config as gin_config

from alfish.config.record import Binding, Config
from alfish.config.values import Macro, Reference, replace_leaves

Key = tuple[str, str, str]
"""Scope, gin's full name of the configurable, argument."""

MACRO = "gin.macro"


@dataclass(frozen=True)
class Home:
    """Where a configurable lives: gin's full name of it, and the module that defines it."""

    selector: str
    module: str


@dataclass
class _Process:
    config: Config | None = None
    worker_values: dict[Key, str] = field(default_factory=dict)
    homes: dict[str, Home] = field(default_factory=dict)


_PROCESS = _Process()


def current() -> Config | None:
    """The configuration that was loaded last in this process."""
    return _PROCESS.config


def clear() -> None:
    """Forgets the configuration. What is registered stays registered."""
    gin.clear_config()
    _PROCESS.config = None
    _PROCESS.worker_values.clear()
    _PROCESS.homes.clear()


def install(config: Config) -> list[tuple[Binding | None, Exception]]:
    """Gives gin the bindings, in place of those it had, and locks them. Returns what gin refused."""
    clear()
    refused: list[tuple[Binding | None, Exception]] = []
    for binding in config.bindings:
        try:
            gin.parse_config(binding.text)
        except (ValueError, KeyError, SyntaxError, TypeError) as error:
            refused.append((binding, error))
    if not refused:
        try:
            gin.finalize()
        except ValueError as error:
            refused.append((None, error))
    _PROCESS.config = config
    return refused


def install_late(config: Config, homes: Mapping[str, Home]) -> None:
    """As `install`, for a configuration that was checked before: imports nothing until a value is asked for.

    A worker that only steps an environment never needs torch, though the configuration speaks of networks.
    """
    clear()
    _PROCESS.homes.update(homes)
    for binding in config.bindings:
        scope, selector, argument = full_name(binding)
        gin_config._CONFIG.setdefault((scope, selector), {})[argument] = replace_leaves(binding.value, _late)
    gin.finalize()
    _PROCESS.config = config


@dataclass(frozen=True)
class _LateReference:
    """A reference that imports what it refers to when gin resolves it, which gin does by copying."""

    reference: Reference
    home: Home

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self.home.module:
            importlib.import_module(self.home.module)
        scope = f"{self.reference.scope}/" if self.reference.scope else ""
        target = gin_config.ConfigurableReference(f"{scope}{self.home.selector}", self.reference.evaluate)
        return copy.deepcopy(target)

    def __repr__(self) -> str:
        return str(self.reference)


def _late(leaf: Any) -> Any:
    if isinstance(leaf, Reference):
        return _LateReference(leaf, home_of(leaf.name))
    return gin_config.parse_value(str(leaf)) if isinstance(leaf, Macro) else leaf


def home_of(name: str) -> Home:
    """Where the configurable of this name lives."""
    if name in _PROCESS.homes:
        return _PROCESS.homes[name]
    matching = gin_config._REGISTRY.matching_selectors(name)
    if not matching:
        return Home(name, "")
    return Home(matching[0], getattr(gin_config._REGISTRY[matching[0]].wrapped, "__module__", None) or "")


def is_registered(selector: str) -> bool:
    return bool(gin_config._REGISTRY.matching_selectors(selector))


def is_constant(name: str) -> bool:
    """Whether `%NAME` is a constant that Python code defined."""
    return bool(gin_config._CONSTANTS.matching_selectors(name))


def registered() -> dict[str, Callable[..., Any]]:
    """Everything that is configurable in this process, by gin's full name."""
    return {
        name: entry.wrapped for name, entry in gin_config._REGISTRY.items() if name.partition(".")[0] not in ("gin", "")
    }


def register_external(obj: Callable[..., Any], selector: str) -> None:
    """Registers a class or function that somebody else defined, such as `torch.nn.Tanh`."""
    module, _, name = selector.rpartition(".")
    gin.external_configurable(obj, name=name, module=module)


def full_name(binding: Binding) -> Key:
    """What gin files a binding under."""
    if binding.is_macro:
        return (binding.key, MACRO, "value")
    return (binding.scope, home_of(binding.name).selector, binding.argument)


def short_name(selector: str) -> str:
    """The shortest name that is unique."""
    name: str = gin_config._REGISTRY.minimal_selector(selector)
    return name


def bound_values() -> dict[Key, Any]:
    """What gin has bound now, with references as symbols."""
    return {
        (scope, selector, argument): _symbolic(value)
        for (scope, selector), arguments in gin_config._CONFIG.items()
        for argument, value in arguments.items()
    }


def used_values() -> dict[Key, Any]:
    """The arguments that gin supplied or left at their default in this process. Calls count as argument ""."""
    with gin_config._OPERATIVE_CONFIG_LOCK:
        used = {key: dict(arguments) for key, arguments in gin_config._OPERATIVE_CONFIG.items()}
    values: dict[Key, Any] = {}
    for (scope, selector), arguments in used.items():
        values[scope, selector, ""] = ""
        values.update({(scope, selector, argument): _symbolic(value) for argument, value in arguments.items()})
    return values


def worker_values() -> dict[Key, str]:
    """What worker processes reported, as text."""
    return dict(_PROCESS.worker_values)


def add_worker_values(values: dict[Key, str]) -> None:
    """Counts what a worker process used as used."""
    _PROCESS.worker_values.update(values)


def scope(name: str) -> contextlib.AbstractContextManager[Any]:
    """Inside the block, bindings with this scope (`eval/load_atari.clip_reward`) hold, before those without."""
    scoped: contextlib.AbstractContextManager[Any] = gin.config_scope(name)
    return scoped


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Restores configuration, locks and reports on leaving: for tests and for code that loads another config."""
    saved = {name: copy.copy(getattr(gin_config, name)) for name in ("_CONFIG", "_OPERATIVE_CONFIG", "_SINGLETONS")}
    saved["_CONFIG"] = {key: dict(arguments) for key, arguments in saved["_CONFIG"].items()}
    locked = gin.config_is_locked()
    process = replace(_PROCESS, worker_values=dict(_PROCESS.worker_values), homes=dict(_PROCESS.homes))
    try:
        yield
    finally:
        clear()
        for name, value in saved.items():
            getattr(gin_config, name).update(value)
        gin_config._set_config_is_locked(locked)
        _PROCESS.config = process.config
        _PROCESS.worker_values.update(process.worker_values)
        _PROCESS.homes.update(process.homes)


def _symbolic(value: Any) -> Any:
    def change(leaf: Any) -> Any:
        if isinstance(leaf, _LateReference):
            return leaf.reference
        if not isinstance(leaf, gin_config.ConfigurableReference):
            return leaf
        text = repr(leaf)
        if text.startswith("%"):
            return Macro(text[1:])
        return Reference("/".join(leaf.scopes), leaf.selector, leaf.evaluate)

    return replace_leaves(value, change)
