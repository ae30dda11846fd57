"""From an annotation to the `Kind` of value it allows: from its source text, or from the object at run time."""

from __future__ import annotations

import ast
import collections.abc
import types
import typing
from collections.abc import Callable
from typing import Any

from alfish.config.kinds import Anything, Bounded, Choice, Kind, Made, OneOf, Scalar, Several, Table
from alfish.config.ranges import Range

ANYTHING = Anything()
_SCALARS: dict[str, type] = {kind.__name__: kind for kind in (int, float, bool, str, bytes)}
_SEQUENCES = ("list", "tuple", "Sequence", "Iterable", "Collection", "MutableSequence", "List", "Tuple")
_TABLES = ("dict", "Mapping", "MutableMapping", "Dict")
_CALLABLES = ("Callable", "type", "Type")

Resolve = Callable[[str], Kind]
"""What a name stands for that is neither built in nor from `typing`."""


def from_source(node: ast.expr, resolve: Resolve) -> Kind:
    """The kind of an annotation expression. What is not understood is not checked."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return Scalar(type(None))
        if isinstance(node.value, str):
            return from_source(ast.parse(node.value, mode="eval").body, resolve)
        return Several((ANYTHING,)) if node.value is Ellipsis else ANYTHING
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union([from_source(node.left, resolve), from_source(node.right, resolve)])
    if isinstance(node, ast.Name | ast.Attribute):
        return _named(ast.unparse(node), resolve)
    if isinstance(node, ast.Subscript):
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return _generic(ast.unparse(node.value), arguments, resolve)
    return ANYTHING


def _named(name: str, resolve: Resolve) -> Kind:
    short = name.rpartition(".")[2]
    if name in _SCALARS:
        return Scalar(_SCALARS[name])
    if short in _SEQUENCES:
        return Several((ANYTHING,))
    if short in _TABLES:
        return Table(ANYTHING, ANYTHING)
    if short in _CALLABLES:
        return Made("callable", is_callable=True)
    if short in ("Any", "object"):
        return ANYTHING
    return resolve(name)


def _generic(name: str, arguments: list[ast.expr], resolve: Resolve) -> Kind:
    short = name.rpartition(".")[2]
    if short == "Annotated":
        kind = from_source(arguments[0], resolve)
        for argument in arguments[1:]:
            bounds = _range_of(argument)
            kind = Bounded(kind, bounds) if bounds is not None else kind
        return kind
    if short == "Literal":
        return Choice(tuple(ast.literal_eval(argument) for argument in arguments))
    if short in ("Optional", "Union"):
        options = [from_source(argument, resolve) for argument in arguments]
        return _union([*options, Scalar(type(None))] if short == "Optional" else options)
    if short in ("Final", "Required"):
        return from_source(arguments[0], resolve)
    if short in ("tuple", "Tuple"):
        if any(isinstance(argument, ast.Constant) and argument.value is Ellipsis for argument in arguments):
            return Several((from_source(arguments[0], resolve),))
        items = [argument for argument in arguments if not isinstance(argument, ast.Tuple)]
        return Several(tuple(from_source(item, resolve) for item in items), length=len(items))
    if short in _SEQUENCES:
        return Several((from_source(arguments[0], resolve),))
    if short in _TABLES:
        return Table(from_source(arguments[0], resolve), from_source(arguments[1], resolve))
    return _named(name, resolve)


def _range_of(node: ast.expr) -> Range | None:
    if not (isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Range"):
        return None
    names = ("min", "max", "above", "below")
    bounds = dict(zip(names, (ast.literal_eval(argument) for argument in node.args), strict=False))
    bounds.update({keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg})
    return Range(**bounds)


def from_object(annotation: Any) -> Kind:
    """The kind of an evaluated annotation, as `typing.get_type_hints(..., include_extras=True)` gives it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is None or annotation is type(None):
        return Scalar(type(None))
    if origin is typing.Annotated:
        kind = from_object(arguments[0])
        for bounds in annotation.__metadata__:
            kind = Bounded(kind, bounds) if isinstance(bounds, Range) else kind
        return kind
    if origin is typing.Literal:
        return Choice(arguments)
    if origin in (typing.Union, types.UnionType):
        return _union([from_object(argument) for argument in arguments])
    if origin in (collections.abc.Callable, type) or annotation in (collections.abc.Callable, type):
        return Made("callable", is_callable=True)
    container = origin or annotation
    # `Any` is a class since Python 3.11.
    if not isinstance(container, type) or container in (object, typing.Any):
        return ANYTHING
    if container in _SCALARS.values():
        return Scalar(container)
    return _container(container, arguments)


def _container(container: type, arguments: tuple[Any, ...]) -> Kind:
    if container is tuple and arguments and Ellipsis not in arguments:
        return Several(tuple(from_object(argument) for argument in arguments), length=len(arguments))
    if container.__name__ in _SEQUENCES:
        return Several((from_object(arguments[0]) if arguments else ANYTHING,))
    if container.__name__ in _TABLES:
        key, value = (from_object(argument) for argument in arguments) if arguments else (ANYTHING, ANYTHING)
        return Table(key, value)
    if getattr(container, "_is_protocol", False):
        return ANYTHING
    return Made(container.__name__, type=container)


def _union(kinds: list[Kind]) -> Kind:
    flat: list[Kind] = []
    for kind in kinds:
        flat.extend(kind.options if isinstance(kind, OneOf) else [kind])
    return ANYTHING if ANYTHING in flat else OneOf(tuple(dict.fromkeys(flat)))
