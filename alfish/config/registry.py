"""`configurable`: the one way a class or a function of alfish, or of a user, gets its arguments from a .gin file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import gin

T = TypeVar("T", bound=Callable[..., Any])

_PACKAGE = __name__.partition(".")[0]


def configurable(obj: T) -> T:
    """Makes the arguments of a class's constructor, or of a factory function, bindable by gin.

    >>> @configurable
    ... def make_greeting(name: str = "you") -> str:
    ...     return f"hello {name}"

    The class or function keeps its name, type and signature. Not for methods and not for what runs every step: a
    call through gin costs about 10 us. Keyword catch-alls are refused, since they would swallow misspelt options.
    """
    qualified = f"{obj.__module__}.{obj.__qualname__}"
    if not inspect.isclass(obj) and "." in obj.__qualname__ and not obj.__qualname__.rpartition(".")[0].endswith(">"):
        raise TypeError(f"{qualified}: configurable is for classes and functions, not for methods")
    catch_all = [p.name for p in inspect.signature(obj).parameters.values() if p.kind is p.VAR_KEYWORD]
    if catch_all:
        raise TypeError(f"{qualified}: a configurable cannot take **{catch_all[0]}; name its arguments")
    module = obj.__module__
    if module.partition(".")[0] == _PACKAGE:
        # One module for all of alfish: its names are unique, so a .gin never needs to qualify them.
        module = _PACKAGE
    elif module == "__mp_main__":
        # The user's script goes by this name in spawned workers; its configurables must keep theirs.
        module = "__main__"
    if not gin.config_is_locked():
        return _register(obj, module)
    # A module that is imported lazily, after the config was locked, may still register what it defines.
    with gin.unlock_config():
        return _register(obj, module)


def _register(obj: T, module: str) -> T:
    registered: T = gin.configurable(module=module)(obj)
    return registered
