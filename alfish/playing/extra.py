"""Packages that only pictures need. They come with `pip install 'alfish[video]'`."""

from __future__ import annotations

import importlib
from typing import Any

from alfish.errors import ConfigError

_PROJECTS = {"av": "av", "PIL": "pillow", "pygame": "pygame"}


def require(package: str, *modules: str) -> Any:
    """The package, with these modules of it imported; what to install when it is not there."""
    try:
        for module in modules:
            importlib.import_module(module)
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(
            f"{_PROJECTS[package]} is needed for this and cannot be imported ({error}). Install it with: "
            "pip install 'alfish[video]'"
        ) from error
