"""Configuration by gin: registering, finding, checking, loading, carrying to workers, reporting.

`from alfish import config`, then `config.load(["ppo.gin"], ["TrainerConfig.num_iterations=10"])`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alfish.config.carry import Carried, merge_operative, operative_keys
    from alfish.config.check import check_arguments, fit_arguments
    from alfish.config.gin_state import clear, current, isolated, scope
    from alfish.config.loading import load, read, register_all
    from alfish.config.problems import ConfigProblems, Problem
    from alfish.config.ranges import Range
    from alfish.config.record import Config
    from alfish.config.registry import configurable
    from alfish.config.report import format_problems, inoperative_lines, operative_text, report_inoperative

__all__ = [
    "Carried",
    "Config",
    "ConfigProblems",
    "Problem",
    "Range",
    "check_arguments",
    "clear",
    "configurable",
    "current",
    "fit_arguments",
    "format_problems",
    "inoperative_lines",
    "isolated",
    "load",
    "merge_operative",
    "operative_keys",
    "operative_text",
    "read",
    "register_all",
    "report_inoperative",
    "scope",
]

_HOMES = {
    "carry": ("Carried", "merge_operative", "operative_keys"),
    "check": ("check_arguments", "fit_arguments"),
    "gin_state": ("clear", "current", "isolated", "scope"),
    "loading": ("load", "read", "register_all"),
    "problems": ("ConfigProblems", "Problem"),
    "ranges": ("Range",),
    "record": ("Config",),
    "registry": ("configurable",),
    "report": ("format_problems", "inoperative_lines", "operative_text", "report_inoperative"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
