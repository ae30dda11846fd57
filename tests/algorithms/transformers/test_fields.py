from __future__ import annotations

import pytest
import torch

from alfish.algorithms.transformers.fields import Fields
from alfish.errors import ConfigError
from alfish.specs import TensorSpec

NESTED = {
    "camera": TensorSpec((3, 8, 8), torch.uint8),
    "arm": {"position": TensorSpec((2,)), "speed": TensorSpec((2,))},
    "action_mask": TensorSpec((4,)),
}
VALUES = {"camera": 1, "arm": {"position": 2, "speed": 3}, "action_mask": 4}


def test_by_default_everything_suitable_but_the_action_mask() -> None:
    assert Fields("X", NESTED, None).paths == ["camera", "arm.position", "arm.speed"]
    assert Fields("X", NESTED, None, lambda spec: spec.dtype == torch.uint8).paths == ["camera"]
    assert Fields("X", TensorSpec(()), None).paths == [""]


def test_a_path_means_a_leaf_or_all_below_it_in_the_order_of_the_observation() -> None:
    fields = Fields("X", NESTED, ["arm", "camera"])
    assert fields.paths == ["camera", "arm.position", "arm.speed"]
    assert fields.select(VALUES) == [1, 2, 3]
    assert [spec.shape for spec in fields.specs] == [(3, 8, 8), (2,), (2,)]


def test_put_and_map_change_the_chosen_leaves_only() -> None:
    fields = Fields("X", NESTED, ["arm.speed", "camera"])
    assert fields.put(VALUES, [10, 30]) == {"camera": 10, "arm": {"position": 2, "speed": 30}, "action_mask": 4}
    mapped = fields.map(lambda a, b: a + b, VALUES, [100, 200])
    assert mapped == {"camera": 101, "arm": {"position": 2, "speed": 203}, "action_mask": 4}


def test_an_unknown_path_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"X: the observation has no field 'camra'. Did you mean 'camera'\?"):
        Fields("X", NESTED, ["camra"])
    with pytest.raises(ConfigError, match=r"It has 'camera', 'arm\.position'"):
        Fields("X", NESTED, ["zzz"])
    with pytest.raises(ConfigError, match="a single tensor: leave fields out"):
        Fields("X", TensorSpec(()), ["camera"])


def test_nothing_to_transform_is_an_error() -> None:
    with pytest.raises(ConfigError, match="X finds nothing to transform"):
        Fields("X", NESTED, None, lambda spec: spec.dtype == torch.int64)
