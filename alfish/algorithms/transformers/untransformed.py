"""Keeping what the environments showed beside what the networks see."""

from __future__ import annotations

from alfish.algorithms.transformers.base import DataTransformer, Tier
from alfish.config.registry import configurable
from alfish.types import Nest, TimeStep, replace


@configurable
class UntransformedTimeStep(DataTransformer):
    """Puts the raw time step into its own field `untransformed`, for algorithms that need both.

    It comes first. Hindsight does not relabel it: it stays what the environments gave.

    Args:
        observation_spec: of what comes in.
    """

    tier = Tier.RAW

    def __init__(self, observation_spec: Nest) -> None:
        super().__init__(observation_spec)

    def transform(self, time_step: TimeStep) -> TimeStep:
        return replace(time_step, untransformed=time_step)
