"""Plain parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from alfish.config.ranges import Range
from alfish.config.registry import configurable

TalliedNumber = Annotated[int, Range(min=1, max=5)]


@configurable
@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to do.

    Args:
        num_rounds: how often.
        rate: how fast; in (0, 1].
        title: of the plan.
        quiet: say nothing.
        mode: how.
        layers: sizes.
        learner_ctor: makes the learner.
        limit: None for no limit.
        extra: anything.
    """

    num_rounds: int = 1000
    rate: Annotated[float, Range(above=0, max=1)] = 0.5
    title: str = "untitled"
    quiet: bool = False
    mode: Literal["fast", "slow"] = "fast"
    layers: tuple[int, ...] = (4, 4)
    learner_ctor: Any = None
    limit: Annotated[float, Range(min=0)] | None = None
    extra: Any = None
    names: Sequence[str] = ()


@configurable
class Stepper:
    """Steps.

    Args:
        lr: step size.
    """

    def __init__(self, lr: float = 0.1) -> None:
        self.lr = lr


@configurable
def make_world(name: str = "flat", size: int = 3) -> str:
    """A world.

    Args:
        name: of its kind.
        size: of its side.
    """
    return f"{name}{size}"
