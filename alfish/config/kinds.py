"""A small model of types: enough to check values that a .gin can hold, without importing what the types name.

A `Kind` is made from an annotation, either from its source (see `annotation.py`) or from the object at run time.
`fit` checks a value against it and returns the value to use: `1e6` becomes `1000000` where an int is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alfish.config.ranges import Range
from alfish.config.values import Reference, render


class Misfit(Exception):
    """The value is not of the kind; the message says what is expected and what was given."""


@dataclass(frozen=True)
class Anything:
    """Not checked."""

    def __str__(self) -> str:
        return "any value"


@dataclass(frozen=True)
class Scalar:
    """A number, string, flag or None."""

    type: type

    def __str__(self) -> str:
        return "None" if self.type is type(None) else self.type.__name__


@dataclass(frozen=True)
class Choice:
    """One of some literals."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return " or ".join(repr(value) for value in self.values)


@dataclass(frozen=True)
class Several:
    """A list or tuple. `length` None: any number of items, all of `items[0]`."""

    items: tuple[Kind, ...]
    length: int | None = None

    def __str__(self) -> str:
        if self.length is None:
            return f"a tuple of {self.items[0]}"
        return f"({', '.join(str(item) for item in self.items)})"


@dataclass(frozen=True)
class Table:
    """A dict."""

    key: Kind
    value: Kind

    def __str__(self) -> str:
        return f"a dict of {self.key} to {self.value}"


@dataclass(frozen=True)
class Made:
    """An object that a `@Reference()` builds, or a callable that `@Reference` names.

    Args:
        name: of its class, or "callable".
        is_callable: the value is called later, so that the bare `@Reference` is right.
        type: the class, when it is known at run time.
    """

    name: str
    is_callable: bool = False
    type: type | None = None

    def __str__(self) -> str:
        article = "an" if self.name[0] in "AEIOU" else "a"
        return "a callable (@Name)" if self.is_callable else f"{article} {self.name} (@Name())"


@dataclass(frozen=True)
class OneOf:
    """A union."""

    options: tuple[Kind, ...]

    def __str__(self) -> str:
        return " or ".join(str(option) for option in self.options)


@dataclass(frozen=True)
class Bounded:
    """A number in a range."""

    kind: Kind
    range: Range

    def __str__(self) -> str:
        return f"{self.kind} {self.range}"


Kind = Anything | Scalar | Choice | Several | Table | Made | OneOf | Bounded

_HINTS = {"inf": "infinity is written 1e999", "true": "write True", "false": "write False", "none": "write None"}


def fit(value: Any, kind: Kind) -> Any:
    """The value as the argument should get it. Raises `Misfit` if it is not of the kind."""
    if isinstance(kind, Anything):
        return value
    if isinstance(value, Reference):
        return _fit_reference(value, kind)
    if isinstance(kind, Bounded):
        return _fit_bounded(value, kind)
    if isinstance(kind, OneOf):
        return _fit_one_of(value, kind)
    if isinstance(kind, Scalar):
        return _fit_scalar(value, kind)
    if isinstance(kind, Choice):
        if any(value == choice and type(value) is type(choice) for choice in kind.values):
            return value
        raise Misfit(_expected(kind, value))
    if isinstance(kind, Several):
        return _fit_several(value, kind)
    if isinstance(kind, Table):
        if not isinstance(value, Mapping):
            raise Misfit(_expected(kind, value))
        return {fit(key, kind.key): fit(item, kind.value) for key, item in value.items()}
    return _fit_made(value, kind)


def _fit_reference(value: Reference, kind: Kind) -> Reference:
    # What `@Name()` returns is known only when it is called.
    if value.evaluate:
        return value
    options = kind.options if isinstance(kind, OneOf) else (kind,)
    if any((isinstance(option, Made) and option.is_callable) or isinstance(option, Anything) for option in options):
        return value
    raise Misfit(f"expects {kind}, got the reference {value} itself. Write {value}() for what it makes")


def _fit_bounded(value: Any, kind: Bounded) -> Any:
    fitted = fit(value, kind.kind)
    if isinstance(fitted, int | float) and not isinstance(fitted, bool) and not kind.range.contains(fitted):
        raise Misfit(f"must be {kind.range}, got {render(value)}")
    return fitted


def _fit_one_of(value: Any, kind: OneOf) -> Any:
    out_of_range = None
    for option in kind.options:
        try:
            return fit(value, option)
        except Misfit as misfit:
            # "must be > 0" says more than "expects float > 0 or None".
            if isinstance(option, Bounded) and str(misfit).startswith("must be"):
                out_of_range = misfit
    raise out_of_range or Misfit(_expected(kind, value))


def _fit_scalar(value: Any, kind: Scalar) -> Any:
    if kind.type is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind.type is float and type(value) is int:
        return value
    # bool is an int to Python, but `num_iterations = True` is a mistake.
    if isinstance(value, kind.type) and (kind.type is bool or not isinstance(value, bool)):
        return value
    raise Misfit(_expected(kind, value))


def _fit_several(value: Any, kind: Several) -> Any:
    if not isinstance(value, list | tuple):
        raise Misfit(_expected(kind, value) + f". Write ({render(value)},) for one item")
    if kind.length is not None and len(value) != kind.length:
        raise Misfit(f"expects {kind}, got {len(value)} items: {render(value)}")
    kinds = kind.items if kind.length is not None else kind.items * len(value)
    fitted = []
    for index, (item, item_kind) in enumerate(zip(value, kinds, strict=True)):
        try:
            fitted.append(fit(item, item_kind))
        except Misfit as misfit:
            raise Misfit(f"item {index} {misfit}") from None
    return type(value)(fitted)


def _fit_made(value: Any, kind: Made) -> Any:
    if (kind.type is not None and isinstance(value, kind.type)) or (kind.is_callable and callable(value)):
        return value
    if value is None or isinstance(value, bool | int | float | str | bytes | list | tuple | Mapping):
        raise Misfit(_expected(kind, value))
    return value


def _expected(kind: Kind, value: Any) -> str:
    given = "None" if value is None else f"{type(value).__name__} {render(value)}"
    text = f"expects {kind}, got {given}"
    if isinstance(value, str) and value.lower() in _HINTS:
        return f"{text}; {_HINTS[value.lower()]}"
    if _wants(kind, bool) and value in (0, 1) and not isinstance(value, float):
        return f"{text}; write {bool(value)}"
    return text


def _wants(kind: Kind, wanted: type) -> bool:
    options = kind.options if isinstance(kind, OneOf) else (kind,)
    return any(isinstance(option, Scalar) and option.type is wanted for option in options)
