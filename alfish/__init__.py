"""alfish: reinforcement learning in the style of ALF, configured by gin, on PyTorch and Gymnasium.

Names are loaded when they are first used: importing alfish is quick, and imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alfish.algorithms.trainer_config import TrainerConfig
    from alfish.config.loading import load as load_config
    from alfish.config.ranges import Range
    from alfish.config.registry import configurable
    from alfish.environments.create import create_environment
    from alfish.training.trainer import Trainer

__version__ = "0.1.0"

__all__ = ["Range", "Trainer", "TrainerConfig", "__version__", "configurable", "create_environment", "load_config"]

_HOMES = {
    "Range": ("alfish.config.ranges", "Range"),
    "Trainer": ("alfish.training.trainer", "Trainer"),
    "TrainerConfig": ("alfish.algorithms.trainer_config", "TrainerConfig"),
    "configurable": ("alfish.config.registry", "configurable"),
    "create_environment": ("alfish.environments.create", "create_environment"),
    "load_config": ("alfish.config.loading", "load"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
