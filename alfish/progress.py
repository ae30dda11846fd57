"""Where a run is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Progress:
    """Counters of one run. The trainer writes them, schedulers and summaries read them.

    Mutable on purpose: every part of a run holds the same object.
    """

    iterations: int = 0  # train_iter calls done
    env_steps: int = 0  # environment steps over all environments, without the steps that only reset
    updates: int = 0  # optimizer steps
    episodes: int = 0
    fraction: float = 0.0  # of the budget, 0 to 1

    def follow(self, field: str, at: Callable[[float], float]) -> float:
        """What a scheduler says now. While a graph is made, another class answers with a tensor that will follow it."""
        return at(getattr(self, field))

    def state_dict(self) -> dict[str, int | float]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, int | float]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
