"""The leaves of Gymnasium's spaces and of their values. Runs in workers: imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

Array = np.ndarray[Any, Any]
Field = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and dtype of one leaf."""


def structure(space: gym.Space[Any]) -> Any:
    """Dict and Tuple as dict and tuple, all other spaces as they are."""
    if isinstance(space, gym.spaces.Dict):
        return {key: structure(child) for key, child in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(structure(child) for child in space.spaces)
    return space


def named_leaves(space: gym.Space[Any]) -> dict[str, gym.Space[Any]]:
    """The leaf spaces by their path, such as `camera.0`; a space without parts has the path ""."""
    return dict(_named(structure(space), ""))


def _named(nested: Any, prefix: str) -> Iterator[tuple[str, gym.Space[Any]]]:
    if isinstance(nested, dict | tuple):
        for key, child in nested.items() if isinstance(nested, dict) else enumerate(nested):
            yield from _named(child, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, nested


def leaf_values(nested: Any, value: Any) -> list[Any]:
    """The leaves of `value` in the order of `nested` (dicts and tuples), whatever order its own dicts have."""
    found: list[Any] = []
    _collect(nested, value, found)
    return found


def _collect(nested: Any, value: Any, found: list[Any]) -> None:
    if nested.__class__ is dict:
        for key, child in nested.items():
            _collect(child, value[key], found)
    elif nested.__class__ is tuple:
        for child, part in zip(nested, value, strict=True):
            _collect(child, part, found)
    else:
        found.append(value)


def assemble(nested: Any, leaves: Sequence[Any]) -> Any:
    """The inverse of `leaf_values`."""
    return _assemble(nested, iter(leaves))


def _assemble(nested: Any, leaves: Iterator[Any]) -> Any:
    if nested.__class__ is dict:
        return {key: _assemble(child, leaves) for key, child in nested.items()}
    if nested.__class__ is tuple:
        return tuple(_assemble(child, leaves) for child in nested)
    return next(leaves)
