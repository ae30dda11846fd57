"""Every configurable there is, learnt from source code without running it.

Checking a config, listing and describing need names, arguments, types, defaults and docstrings. All of that is in
the syntax trees, so none of it has to wait for torch.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alfish.config import docstring
from alfish.config.annotation import ANYTHING, from_object
from alfish.config.kinds import Kind

PACKAGE_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Parameter:
    """One argument of a configurable. `default` is its source text, None where there is none."""

    name: str
    annotation: str
    kind: Kind
    default: str | None
    doc: str = ""

    @property
    def required(self) -> bool:
        """Whether the default says that a config must bind it."""
        return self.default is not None and self.default.rpartition(".")[2] == "REQUIRED"

    @property
    def type_text(self) -> str:
        """Its type as a user reads it: `int >= 1`."""
        return self.annotation if self.kind == ANYTHING else str(self.kind)

    @property
    def default_text(self) -> str:
        return "no default" if self.default is None or self.required else f"default {self.default}"

    def __str__(self) -> str:
        """`num_iterations (int, default 1000)`."""
        return f"{self.name} ({', '.join(filter(None, [self.type_text, self.default_text]))})"


@dataclass(frozen=True)
class Configurable:
    """A class or function that gin can configure.

    Args:
        name: what a config calls it.
        module: where it is defined.
        is_class: a class, else a function.
        parameters: its arguments, in order.
        doc: its docstring, as written.
        path: its file.
        line: of its definition.
        is_open: its arguments are not all known, so that any may be bound.
    """

    name: str
    module: str
    is_class: bool
    parameters: tuple[Parameter, ...]
    doc: str
    path: str
    line: int
    is_open: bool = False

    @property
    def selector(self) -> str:
        """What gin knows it by."""
        package = self.module.partition(".")[0]
        return f"{package}.{self.name}" if package == PACKAGE_ROOT.name else f"{self.module}.{self.name}"

    def parameter(self, name: str) -> Parameter | None:
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


@dataclass(frozen=True)
class Catalog:
    """Configurables by the last part of their name. Several may share it: then a config has to say the module."""

    by_name: Mapping[str, tuple[Configurable, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, configurables: Iterable[Configurable]) -> Catalog:
        by_name: dict[str, tuple[Configurable, ...]] = {}
        for configurable in configurables:
            others = by_name.get(configurable.name, ())
            if all(other.selector != configurable.selector for other in others):
                by_name[configurable.name] = (*others, configurable)
        return cls(by_name)

    def __iter__(self) -> Iterator[Configurable]:
        for configurables in self.by_name.values():
            yield from configurables

    def __add__(self, others: Iterable[Configurable]) -> Catalog:
        return Catalog.of([*self, *others])

    def matching(self, selector: str) -> tuple[Configurable, ...]:
        """Those that `selector` (`Adam`, `alfish.Adam`) may mean, as gin matches names: from the end."""
        candidates = self.by_name.get(selector.rpartition(".")[2], ())
        exact = tuple(c for c in candidates if c.selector == selector)
        return exact or tuple(c for c in candidates if f".{c.selector}".endswith(f".{selector}"))

    def get(self, selector: str) -> Configurable | None:
        matching = self.matching(selector)
        return matching[0] if len(matching) == 1 else None

    def shortest_name(self, configurable: Configurable) -> str:
        """The name alone where it is unique, else with its module."""
        return configurable.name if len(self.by_name[configurable.name]) == 1 else configurable.selector


def describe_object(obj: Callable[..., Any], selector: str) -> Configurable:
    """The entry of a configurable that exists at run time, for those whose source could not be read."""
    module, _, name = selector.rpartition(".")
    unwrapped = inspect.unwrap(obj.__init__ if inspect.isclass(obj) else obj)
    try:
        hints = typing.get_type_hints(unwrapped, include_extras=True)
    except (NameError, TypeError, AttributeError):
        # An annotation that only a type checker can resolve is not checked.
        hints = {}
    notes = docstring.arguments(inspect.getdoc(obj))
    try:
        signature = inspect.signature(obj).parameters.values()
    except ValueError:
        # Functions written in C may not say what they take.
        return Configurable(name, module, inspect.isclass(obj), (), inspect.getdoc(obj) or "", "", 0, is_open=True)
    parameters, is_open = [], False
    for parameter in signature:
        is_open = is_open or parameter.kind is parameter.VAR_KEYWORD
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        parameters.append(
            Parameter(
                parameter.name,
                "" if parameter.annotation is parameter.empty else inspect.formatannotation(parameter.annotation),
                from_object(hints[parameter.name]) if parameter.name in hints else ANYTHING,
                None if parameter.default is parameter.empty else repr(parameter.default),
                notes.get(parameter.name, ""),
            )
        )
    code = getattr(unwrapped, "__code__", None)
    return Configurable(
        name,
        module,
        inspect.isclass(obj),
        tuple(parameters),
        inspect.getdoc(obj) or "",
        code.co_filename if code else "",
        code.co_firstlineno if code else 0,
        is_open,
    )
