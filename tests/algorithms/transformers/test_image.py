from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish.algorithms.transformers.image import ImageScaleTransformer
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import replace
from tests.algorithms.transformers.tape import Tape, assert_equal, rolled_out, stream

IMAGE = BoundedTensorSpec((1, 2, 2), torch.uint8, np.asarray(0), np.asarray(255))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (2.0, 7.0)])
def test_bytes_become_floats_between_min_and_max(low: float, high: float) -> None:
    transformer = ImageScaleTransformer(IMAGE, min=low, max=high)
    (step,) = stream(IMAGE, 1, batch_size=1)
    image = torch.tensor([0, 51, 204, 255], dtype=torch.uint8).reshape(1, 1, 2, 2)
    scaled = transformer.transform(replace(step, observation=image)).observation
    torch.testing.assert_close(scaled.flatten(), low + (high - low) * torch.tensor([0.0, 0.2, 0.8, 1.0]))
    assert transformer.transformed_observation_spec == BoundedTensorSpec((1, 2, 2), torch.float32, low, high)
    assert image.dtype == torch.uint8


def test_rollout_and_replay_agree_and_other_fields_stay() -> None:
    spec = {"camera": IMAGE, "speed": BoundedTensorSpec((2,))}
    transformer = ImageScaleTransformer(spec)
    assert transformer.transformed_observation_spec["speed"] == spec["speed"]
    steps = stream(spec, 12)
    seen = rolled_out(transformer, steps)
    assert_equal(seen[3].observation["speed"], steps[3].observation["speed"])
    drawn = Tape(steps).draw(20, 3)
    replayed = transformer.transform_experience(drawn, Tape(steps)).time_step
    assert_equal(replayed, Tape(seen).draw(20, 3).time_step)


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"min = 1\.0 is not below max = 0\.0"):
        ImageScaleTransformer(IMAGE, min=1.0, max=0.0)
    with pytest.raises(ConfigError, match=r"uint8, but speed is torch\.float32"):
        ImageScaleTransformer({"speed": TensorSpec((2,))}, fields=["speed"])
