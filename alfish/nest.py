"""Map, flatten, stack and index over nests.

A nest is a leaf, or a dict, tuple, list or record of nests. A record is a frozen dataclass made by
`alfish.types.record`. `()` means "absent" and has no leaves. Anything else is a leaf.

    >>> map(lambda x: x + 1, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (3, 4)}
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from typing import Any

import torch

# A nest of leaves; recursive types do not help a reader here.
Nest = Any

_FIELDS = "_nest_fields"


def is_record(value: object) -> bool:
    """Whether `value` is an instance of a class made by `alfish.types.record`."""
    return hasattr(value, _FIELDS) and is_dataclass(value)


def is_leaf(value: Nest) -> bool:
    return not isinstance(value, (dict, tuple, list)) and not hasattr(value, _FIELDS)


def map(function: Callable[..., Any], nest: Nest, *others: Nest) -> Nest:
    """`function` applied to the leaves; `others` have the structure of `nest` and are walked along."""
    if not others:
        return _map_one(function, nest)
    cls = nest.__class__
    if cls is dict:
        return {key: map(function, value, *(other[key] for other in others)) for key, value in nest.items()}
    if cls is tuple or cls is list:
        return cls([map(function, *values) for values in zip(nest, *others, strict=True)])
    if hasattr(cls, _FIELDS):
        rows = zip(*([getattr(each, field) for field in cls._nest_fields] for each in (nest, *others)), strict=True)
        return cls(*[map(function, *row) for row in rows])
    return function(nest, *others)


def _map_one(function: Callable[[Any], Any], nest: Nest) -> Nest:
    # Apart from `map` because it runs several times per environment step: a third of the time.
    cls = nest.__class__
    if cls is torch.Tensor:
        return function(nest)
    if cls is dict:
        return {key: _map_one(function, value) for key, value in nest.items()}
    if cls is tuple or cls is list:
        return cls([_map_one(function, value) for value in nest]) if nest else nest
    if hasattr(cls, _FIELDS):
        return cls(*[_map_one(function, value) for value in nest.__dict__.values()])
    return function(nest)


def map_with_path(function: Callable[..., Any], nest: Nest, path: str = "") -> Nest:
    """Like `map`, with the leaf's path (`observation.camera.0`) as the first argument."""
    if is_leaf(nest):
        return function(path, nest)
    prefix = f"{path}." if path else ""
    children = {key: map_with_path(function, value, f"{prefix}{key}") for key, value in _children(nest)}
    return _like(nest, children)


def leaves(nest: Nest) -> list[Any]:
    """The leaves in a fixed order: dicts by insertion, records by field."""
    found: list[Any] = []
    _collect(nest, found)
    return found


def _collect(nest: Nest, found: list[Any]) -> None:
    cls = nest.__class__
    if cls is dict:
        children = nest.values()
    elif cls is tuple or cls is list:
        children = nest
    elif hasattr(cls, _FIELDS):
        children = nest.__dict__.values()
    else:
        found.append(nest)
        return
    for child in children:
        if child.__class__ is torch.Tensor:  # asked here, since a call for each would take as long as all the rest
            found.append(child)
        else:
            _collect(child, found)


def named_leaves(nest: Nest) -> dict[str, Any]:
    """Path to leaf, e.g. `{"observation.camera.0": tensor}`; a bare leaf has the path ''."""
    found: dict[str, Any] = {}
    map_with_path(found.__setitem__, nest)
    return found


def unflatten(structure: Nest, flat: Sequence[Any]) -> Nest:
    """The inverse of `leaves`: `flat` packed into the structure."""
    iterator = iter(flat)
    packed = map(lambda _: next(iterator), structure)
    if next(iterator, _END) is not _END:
        raise ValueError(f"{len(flat)} values for a structure of {len(leaves(structure))} leaves")
    return packed


_END = object()


def first_leaf(nest: Nest) -> Any:
    """Any leaf, to read a batch size or a device from; raises when there is none."""
    for leaf in leaves(nest):
        return leaf
    raise ValueError("this nest has no leaf")


def same_structure(a: Nest, b: Nest) -> bool:
    if is_leaf(a) or is_leaf(b):
        return is_leaf(a) and is_leaf(b)
    if type(a) is not type(b):
        return False
    left, right = list(_children(a)), list(_children(b))
    return len(left) == len(right) and all(
        i == j and same_structure(x, y) for (i, x), (j, y) in zip(left, right, strict=True)
    )


def stack(nests: Sequence[Nest], dim: int = 0) -> Nest:
    """`T` nests of `[B, ...]` tensors as one nest of `[T, B, ...]`; of a single one it is a view."""
    if len(nests) == 1:
        return _map_one(lambda leaf: leaf.unsqueeze(dim), nests[0])
    return _join(lambda rows: torch.stack(rows, dim), nests)


def concat(nests: Sequence[Nest], dim: int = 0) -> Nest:
    return _join(lambda rows: torch.cat(rows, dim), nests)


def _join(function: Callable[[Any], torch.Tensor], nests: Sequence[Nest]) -> Nest:
    """One nest of several: `function` is given the leaves that are in the same place."""
    cls = nests[0].__class__
    if cls is torch.Tensor:
        return function(nests)
    if cls is dict:
        return {key: _join(function, [each[key] for each in nests]) for key in nests[0]}
    if cls is tuple or cls is list:
        return cls([_join(function, children) for children in zip(*nests, strict=True)])
    if hasattr(cls, _FIELDS):
        columns = zip(*[each.__dict__.values() for each in nests], strict=True)
        return cls(*[_join(function, column) for column in columns])
    return function(nests)


def index(nest: Nest, key: Any) -> Nest:
    """`leaf[key]` for every leaf."""
    return map(lambda leaf: leaf[key], nest)


def split(nest: Nest, sizes: Sequence[int], dim: int) -> list[Nest]:
    """Views of consecutive pieces, the inverse of `concat`."""
    make: Callable[..., Nest]
    cls = nest.__class__
    if cls is dict:
        children, make = nest.values(), lambda row: dict(zip(nest, row, strict=True))
    elif cls is tuple or cls is list:
        children, make = nest, cls
    elif hasattr(cls, _FIELDS):
        children, make = nest.__dict__.values(), lambda row: cls(*row)
    else:
        return nest.split(sizes, dim)
    columns = [split(child, sizes, dim) for child in children]
    return [make(row) for row in zip(*columns, strict=True)] if columns else [nest] * len(sizes)


def flatten_time(nest: Nest) -> Nest:
    """`[T, B, ...]` leaves as `[T * B, ...]`."""
    return map(lambda leaf: leaf.flatten(0, 1), nest)


def unflatten_time(nest: Nest, length: int) -> Nest:
    """`[T * B, ...]` leaves as `[T, B, ...]`, the inverse of `flatten_time`."""
    return map(lambda leaf: leaf.view(length, len(leaf) // length, *leaf.shape[1:]), nest)


def where(condition: torch.Tensor, if_true: Nest, if_false: Nest) -> Nest:
    """`condition` `[B]` chooses along the first dimension of `[B, ...]` leaves."""

    def choose(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.where(condition.reshape(condition.shape + (1,) * (a.dim() - condition.dim())), a, b)

    return map(choose, if_true, if_false)


def zero_where(condition: torch.Tensor, nest: Nest) -> Nest:
    """Zeros where `condition` `[B]` holds, e.g. to forget the recurrent state at the start of an episode."""
    return map(lambda leaf: leaf.masked_fill(condition.reshape(condition.shape + (1,) * (leaf.dim() - 1)), 0), nest)


def detach(nest: Nest) -> Nest:
    return map(lambda leaf: leaf.detach(), nest)


def to_device(nest: Nest, device: torch.device | str) -> Nest:
    return map(lambda leaf: leaf.to(device), nest)


def _children(nest: Nest) -> Iterator[tuple[Any, Nest]]:
    if isinstance(nest, dict):
        yield from nest.items()
    elif isinstance(nest, (tuple, list)):
        yield from enumerate(nest)
    else:
        for field in getattr(nest, _FIELDS):
            yield field, getattr(nest, field)


def _like(nest: Nest, children: dict[Any, Nest]) -> Nest:
    if isinstance(nest, dict):
        return children
    if isinstance(nest, (tuple, list)):
        return type(nest)(builtins.list(children.values()))
    return type(nest)(**children)
