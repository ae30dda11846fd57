"""Classes that inherit, that own parts, and that must be told something."""

from __future__ import annotations

from collections.abc import Callable

import gin

from alfish.config.registry import configurable
from tests.config.sample.parts import Stepper, TalliedNumber


@configurable
class Learner:
    """Learns.

    Args:
        size: units of its network.
        stepper: what moves it.
    """

    def __init__(self, size: int = 8, stepper: Stepper | None = None) -> None:
        self.size = size
        self.stepper = stepper


@configurable
class QuickLearner(Learner):
    """Learns with its parent's constructor."""


@configurable
class SteadyLearner(Learner):
    """Learns with a constructor of its own, which leaves the parent's arguments to the parent."""

    def __init__(self, patience: float = 1.0) -> None:
        super().__init__()
        self.patience = patience


@configurable
class Pupil:
    """Cannot do without a teacher.

    Args:
        teacher: name of the teacher.
        grade: tallied.
    """

    def __init__(self, teacher: str = gin.REQUIRED, grade: TalliedNumber = 1) -> None:
        self.teacher = teacher
        self.grade = grade


@configurable
def make_pair(learner_ctor: Callable[[], Learner] = Learner) -> tuple[Learner, Learner]:
    """Two of a kind.

    Args:
        learner_ctor: makes each.
    """
    return learner_ctor(), learner_ctor()
