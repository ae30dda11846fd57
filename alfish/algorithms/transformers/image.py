"""Pictures as numbers of a convenient size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from alfish.algorithms.transformers.base import DataTransformer
from alfish.algorithms.transformers.fields import Fields
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec
from alfish.types import Nest, TimeStep, replace


@configurable
class ImageScaleTransformer(DataTransformer):
    """Pictures of bytes 0..255 as floats `min`..`max`.

    Args:
        observation_spec: of what comes in.
        fields: paths of the pictures in the observation; None: every uint8 leaf.
        min: what 0 becomes.
        max: what 255 becomes.
    """

    def __init__(
        self, observation_spec: Nest, fields: Sequence[str] | None = None, min: float = -1.0, max: float = 1.0
    ) -> None:
        if min >= max:
            raise ConfigError(f"ImageScaleTransformer: min = {min} is not below max = {max}")
        images = Fields("ImageScaleTransformer", observation_spec, fields, lambda spec: spec.dtype == torch.uint8)
        for path, spec in zip(images.paths, images.specs, strict=True):
            if spec.dtype != torch.uint8:
                raise ConfigError(f"ImageScaleTransformer scales pictures of uint8, but {path or 'it'} is {spec.dtype}")
        low, high = np.array(min, np.float32), np.array(max, np.float32)
        scaled = [BoundedTensorSpec(spec.shape, torch.float32, low, high) for spec in images.specs]
        super().__init__(observation_spec, images.put(observation_spec, scaled))
        self._images = images
        self._scale = (max - min) / 255.0
        self._min = min

    def transform(self, time_step: TimeStep) -> TimeStep:
        return replace(time_step, observation=self._images.map(self._scaled, time_step.observation))

    def _scaled(self, image: torch.Tensor) -> torch.Tensor:
        return image.float().mul_(self._scale).add_(self._min)
