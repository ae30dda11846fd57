"""Environments: from a Gymnasium id to a stream of time steps."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Lazy, since worker processes import parts of this package and must not import torch.
_HOME = {
    "Environment": "environment",
    "create_environment": "create",
    "load_gymnasium": "loading",
    "load_atari": "atari",
}

__all__ = ["Environment", "create_environment", "load_atari", "load_gymnasium"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
