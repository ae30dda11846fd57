"""Checks a configuration against what can be configured. Everything that is wrong is found, not just the first."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from alfish.config.annotation import from_object
from alfish.config.catalog import Catalog, Configurable
from alfish.config.kinds import Kind, Misfit, fit
from alfish.config.problems import Place, Problem, nearest
from alfish.config.record import Binding
from alfish.config.resolve import Resolved
from alfish.config.values import Macro, Reference, render, replace_leaves, walk

_GIN_NAMES = ("gin.macro", "macro", "gin.singleton", "singleton", "gin.constant", "constant")
_REQUIRED = ("gin.REQUIRED", "REQUIRED")
_CONSTRUCTOR_ENDINGS = ("_ctor", "_cls")
_FEW = 12


@dataclass(frozen=True)
class Checked:
    """The bindings with numbers converted where needed, and the findings."""

    bindings: tuple[Binding, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    unknown: bool  # names that only importing the user's modules can explain


def check(
    resolved: Resolved,
    catalog: Catalog,
    trust_unknown: bool = False,
    is_constant: Callable[[str], bool] = lambda name: False,
) -> Checked:
    """Names, options, types, ranges, macros, references and required values.

    Args:
        resolved: what the files and the command line say.
        catalog: what there is to configure.
        trust_unknown: names that the catalog lacks are not problems yet: modules of the user's are to be imported.
        is_constant: whether a `%NAME` that no file defines is a constant of the user's modules.
    """
    checker = _Checker(catalog, {binding.key: binding for binding in resolved.bindings}, trust_unknown, is_constant)
    problems = [*checker.names(resolved.names), *checker.references(), *checker.macros(), *checker.required()]
    bindings, value_problems, notes = checker.values()
    everything = tuple(dict.fromkeys([*problems, *value_problems]))
    return Checked(bindings, everything, notes, unknown=checker.saw_unknown)


class _Checker:
    def __init__(
        self,
        catalog: Catalog,
        bindings: dict[str, Binding],
        trust_unknown: bool,
        is_constant: Callable[[str], bool],
    ) -> None:
        self._catalog = catalog
        self._bindings = bindings
        self._trust_unknown = trust_unknown
        self._is_constant = is_constant
        self.saw_unknown = False

    def names(self, names: Sequence[tuple[str, str, Place]]) -> Iterator[Problem]:
        """Unknown names and unknown options, in all statements, also in those that others override."""
        block = None
        for selector, argument, place in names:
            problem = self._name_problem(selector, "", place)
            # A block with an unknown heading is one problem, not one per line.
            if problem is not None and not (argument and selector == block):
                block = None if argument else selector
                yield problem
            found = self._catalog.get(selector)
            if found is None or not argument or found.is_open or found.parameter(argument):
                continue
            yield Problem((f"{selector}.{argument}",), f"no such option. {_options_hint(found, argument)}", place)

    def _name_problem(self, selector: str, sign: str, place: Place) -> Problem | None:
        matching = self._catalog.matching(selector)
        if len(matching) == 1 or selector in _GIN_NAMES:
            return None
        if matching:
            choices = " or ".join(f"{sign}{configurable.selector}" for configurable in matching)
            return Problem((f"{sign}{selector}",), f"there are several of that name. Write {choices}", place)
        self.saw_unknown = True
        if self._trust_unknown:
            return None
        close = nearest(selector.rpartition(".")[2], self._catalog.by_name)
        hint = f"Did you mean {sign}{close}?" if close else "Is its module imported? `alfish list` shows what there is."
        if sign and "." in selector:
            hint += f" For any other callable add a line: import {selector.rpartition('.')[0]}."
        return Problem((f"{sign}{selector}",), f"no such name. {hint}", place)

    def references(self) -> Iterator[Problem]:
        for binding in self._bindings.values():
            for leaf in walk(binding.value):
                if isinstance(leaf, Reference):
                    problem = self._name_problem(leaf.name, "@", binding.place)
                    if problem is not None:
                        yield replace(problem, message=f"{problem.message} In {binding.text}")

    def macros(self) -> Iterator[Problem]:
        used = {leaf.name for binding in self._bindings.values() for leaf in walk(binding.value) if _is_macro(leaf)}
        defined = {key for key, binding in self._bindings.items() if binding.is_macro}
        for binding in self._bindings.values():
            for leaf in walk(binding.value):
                if _is_macro(leaf) and leaf.name not in defined and not self._may_be_constant(leaf.name):
                    close = nearest(leaf.name, defined)
                    hint = f"Did you mean %{close}?" if close else f"Add a line: {leaf.name} = ..."
                    yield Problem((binding.key,), f"%{leaf.name} is not defined. {hint}", binding.place)
            if binding.is_macro and self._has_open_macro(binding.value) and self._circle(binding.key):
                message = f"is defined by itself: {' → '.join(self._circle(binding.key))}"
                yield Problem((binding.key,), message, binding.place)
            if binding.is_macro and binding.key not in used and binding.place.line is None:
                yield Problem((binding.key,), self._stray_macro(binding.key, defined - {binding.key}), binding.place)

    def _circle(self, key: str) -> list[str]:
        """The macros from `key` back to itself; empty if they do not lead back."""
        trail = [key]
        while trail[-1] in self._bindings and len(trail) <= len(self._bindings):
            following = next((leaf.name for leaf in walk(self._bindings[trail[-1]].value) if _is_macro(leaf)), "")
            trail.append(following)
            if following == key:
                return trail
        return []

    def _stray_macro(self, key: str, defined: set[str]) -> str:
        owners = [f"{entry.name}.{key}" for entry in self._catalog if entry.parameter(key)]
        if owners:
            return f"name what it belongs to: {' or '.join(owners[:3])}"
        close = nearest(key, defined)
        return f"no %{key} is used in the config." + (f" Did you mean {close}?" if close else "")

    def _may_be_constant(self, name: str) -> bool:
        if name in _REQUIRED or self._is_constant(name):
            return True
        # Constants of the user's modules exist only once these are imported.
        self.saw_unknown = self.saw_unknown or self._trust_unknown
        return self._trust_unknown

    def required(self) -> Iterator[Problem]:
        """Values that somebody must give and nobody gave."""
        for binding in self._bindings.values():
            if isinstance(binding.value, Macro) and binding.value.name in _REQUIRED:
                message = "must be set by the config that uses this one; it is %gin.REQUIRED here"
                yield Problem((binding.key,), message, binding.place)
        bound = {(binding.name, binding.argument) for binding in self._bindings.values()}
        seen = set()
        for name, place in self._used_names():
            found = self._catalog.get(name)
            for parameter in found.parameters if found is not None and found.name not in seen else ():
                if found is not None and parameter.required and (found.name, parameter.name) not in bound:
                    key = f"{found.name}.{parameter.name}"
                    yield Problem((key,), f"has to be set. Add a line: {key} = ...", place)
            if found is not None:
                seen.add(found.name)

    def _used_names(self) -> Iterator[tuple[str, Place]]:
        for binding in self._bindings.values():
            if binding.name:
                yield binding.name, binding.place
            for leaf in walk(binding.value):
                if isinstance(leaf, Reference):
                    yield leaf.name, binding.place

    def values(self) -> tuple[tuple[Binding, ...], list[Problem], tuple[str, ...]]:
        """Types and ranges."""
        converted = dict(self._bindings)
        problems: list[Problem] = []
        notes: list[str] = []
        for key, binding in self._bindings.items():
            found = self._catalog.get(binding.name) if binding.name else None
            parameter = found.parameter(binding.argument) if found is not None else None
            if parameter is None or self._has_open_macro(binding.value):
                continue
            source = binding
            if isinstance(binding.value, Macro):
                source = self._bindings[binding.value.name]
            plain = self._without_macros(source.value)
            problem = _constructor_problem(binding, plain)
            try:
                fitted = fit(plain, parameter.kind)
            except Misfit as misfit:
                via = f" ({binding.value} is set at {source.place})" if source is not binding else ""
                problem = problem or Problem((key,), f"{misfit}{via}.", binding.place)
                fitted = plain
            if problem is not None:
                problems.append(problem)
            elif render(fitted) != render(plain):
                converted[source.key] = replace(source, value=fitted)
                notes.append(f"{source.place}: {source.key}: {render(plain)} taken as {render(fitted)}")
        return tuple(converted.values()), problems, tuple(dict.fromkeys(notes))

    def _has_open_macro(self, value: Any, depth: int = 0) -> bool:
        """Whether the value depends on a macro that has no value here, or on itself."""
        for leaf in walk(value):
            if _is_macro(leaf):
                target = self._bindings.get(leaf.name)
                if target is None or depth > 20 or self._has_open_macro(target.value, depth + 1):
                    return True
        return False

    def _without_macros(self, value: Any) -> Any:
        def expand(leaf: Any) -> Any:
            return self._without_macros(self._bindings[leaf.name].value) if isinstance(leaf, Macro) else leaf

        return replace_leaves(value, expand)


def check_arguments(cls: Callable[..., Any], values: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with arguments given in Python to a class or function, in the words used for a .gin.

    >>> check_arguments(TrainerConfig, {"num_iterations": "ten"})
    [Problem(keys=('TrainerConfig.num_iterations',), message="expects int, got str 'ten'.", ...)]
    """
    kinds = argument_kinds(cls)
    problems = []
    for name, value in values.items():
        if name in kinds:
            try:
                fit(value, kinds[name])
            except Misfit as misfit:
                problems.append(Problem((f"{cls.__name__}.{name}",), f"{misfit}."))
    return problems


def fit_arguments(cls: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as the arguments should get them (`1e6` as `1000000` for an int). They must have been checked."""
    kinds = argument_kinds(cls)
    return {name: fit(value, kinds[name]) if name in kinds else value for name, value in values.items()}


def argument_kinds(cls: Callable[..., Any]) -> dict[str, Kind]:
    """The kinds of all arguments that are annotated."""
    function = inspect.unwrap(cls.__init__ if inspect.isclass(cls) else cls)
    # A dataclass's __init__ is generated: its annotations resolve in the module of the class.
    hints = typing.get_type_hints(cls if dataclasses.is_dataclass(cls) else function, include_extras=True)
    return {name: from_object(hints[name]) for name in inspect.signature(cls).parameters if name in hints}


def _is_macro(leaf: Any) -> typing.TypeGuard[Macro]:
    return isinstance(leaf, Macro)


def _constructor_problem(binding: Binding, value: Any) -> Problem | None:
    if binding.argument.endswith(_CONSTRUCTOR_ENDINGS) and isinstance(value, Reference) and value.evaluate:
        bare = str(value).removesuffix("()")
        return Problem(
            (binding.key,), f"takes a constructor, not what it makes. Write {bare} without ().", binding.place
        )
    return None


def _options_hint(found: Configurable, argument: str) -> str:
    close = nearest(argument, [parameter.name for parameter in found.parameters])
    parameter = found.parameter(close) if close else None
    if parameter is not None:
        return f"Did you mean {parameter}?"
    if 0 < len(found.parameters) <= _FEW:
        return f"It has: {', '.join(parameter.name for parameter in found.parameters)}."
    return f"`alfish describe {found.name}` lists its options." if found.parameters else "It has no options."
