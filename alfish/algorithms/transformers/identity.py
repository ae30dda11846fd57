"""The transformer that changes nothing."""

from __future__ import annotations

from alfish.algorithms.transformers.base import DataTransformer
from alfish.config.registry import configurable
from alfish.types import Nest


@configurable
class IdentityDataTransformer(DataTransformer):
    """Leaves everything as it is.

    Args:
        observation_spec: of what comes in.
    """

    def __init__(self, observation_spec: Nest) -> None:
        super().__init__(observation_spec)
