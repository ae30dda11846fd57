"""The values a .gin can hold, with references and macros kept as symbols."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reference:
    """`@scope/Name` or, evaluated, `@scope/Name()`."""

    scope: str
    name: str
    evaluate: bool

    def __str__(self) -> str:
        scope = f"{self.scope}/" if self.scope else ""
        return f"@{scope}{self.name}{'()' if self.evaluate else ''}"


@dataclass(frozen=True)
class Macro:
    """`%NAME`."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


def render(value: Any) -> str:
    """The value as gin text, on one line. What gin cannot express is rendered with `repr`."""
    if isinstance(value, Reference | Macro):
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        # gin has no name for infinity.
        return "1e999" if value > 0 else "-1e999"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{render(key)}: {render(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(render(item) for item in value)}]"
    if isinstance(value, tuple):
        return f"({', '.join(render(item) for item in value)}{',' if len(value) == 1 else ''})"
    return repr(value)


def is_literal(value: Any) -> bool:
    """Whether `render` gives text from which gin makes an equal value."""
    if isinstance(value, dict):
        return all(is_literal(key) and is_literal(item) for key, item in value.items())
    if type(value) in (list, tuple):
        return all(is_literal(item) for item in value)
    if isinstance(value, float) and math.isnan(value):
        return False
    return value is None or type(value) in (bool, int, float, str, bytes) or isinstance(value, Reference | Macro)


def walk(value: Any) -> Iterator[Any]:
    """All leaves of a value: literals, references, macros."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from walk(key)
            yield from walk(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from walk(item)
    else:
        yield value


def replace_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of the value with `change` applied to every leaf."""
    if isinstance(value, dict):
        return {replace_leaves(key, change): replace_leaves(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(replace_leaves(item, change) for item in value)
    return change(value)
