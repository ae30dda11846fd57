"""Specs describe Gymnasium spaces."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish import specs
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec, TensorSpec


def test_discrete_has_inclusive_bounds_and_keeps_its_start() -> None:
    spec = specs.from_space(gym.spaces.Discrete(3, start=5))
    assert (spec.shape, spec.dtype, spec.minimum, spec.maximum) == ((), torch.int64, 5, 7)
    assert spec.num_values == 3
    assert spec.is_discrete


def test_multi_discrete_and_multi_binary() -> None:
    multi = specs.from_space(gym.spaces.MultiDiscrete([2, 4]))
    assert multi.shape == (2,)
    assert multi.maximum.tolist() == [1, 3]
    with pytest.raises(ValueError, match="no single number of values"):
        _ = multi.num_values
    assert specs.from_space(gym.spaces.MultiBinary(3)).num_values == 2


@pytest.mark.parametrize(
    ("given", "kept"),
    [("float64", torch.float32), ("float32", torch.float32), ("uint8", torch.uint8), ("int32", torch.int32)],
)
def test_box_dtype(given: str, kept: torch.dtype) -> None:
    assert specs.from_space(gym.spaces.Box(0, 1, (2,), dtype=np.dtype(given).type)).dtype == kept


def test_nested_spaces_become_nests() -> None:
    space = gym.spaces.Dict(
        camera=gym.spaces.Box(0, 255, (4, 4, 3), np.uint8),
        pair=gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (3,))]),
    )
    spec = specs.from_space(space)
    assert spec["camera"].shape == (4, 4, 3)
    assert isinstance(spec["pair"], tuple)
    assert specs.nbytes(spec) == 48 + 8 + 12
    assert specs.zeros(spec, 5, 2)["pair"][1].shape == (5, 2, 3)


def test_unsupported_space_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"Text spaces are not supported.*create_environment\.wrappers"):
        specs.from_space(gym.spaces.Text(5))


def test_samples_are_uniform_within_the_bounds() -> None:
    generator = torch.Generator().manual_seed(1)
    discrete = specs.from_space(gym.spaces.Discrete(4, start=-1))
    counts = torch.bincount(discrete.sample(4000, generator=generator) + 1, minlength=4)
    assert counts.sum() == 4000
    assert ((counts - 1000).abs() < 130).all()
    box = BoundedTensorSpec((2,), torch.float32, np.array([-2.0, 0.0]), np.array([2.0, 1.0]))
    values = box.sample(4000, generator=generator)
    assert values.min(0).values.tolist() == pytest.approx([-2, 0], abs=0.01)
    assert values.max(0).values.tolist() == pytest.approx([2, 1], abs=0.01)


def test_samples_of_an_unbounded_box_are_normal_and_respect_a_single_bound() -> None:
    spec = specs.from_space(gym.spaces.Box(np.array([-np.inf, 0.0]), np.array([np.inf, np.inf])))
    values = spec.sample(4000, generator=torch.Generator().manual_seed(0))
    assert abs(values[:, 0].std().item() - 1) < 0.05
    assert values[:, 1].min() == 0


def test_equality_compares_bounds() -> None:
    one = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(1))
    assert one == BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(1))
    assert one != BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(2))
    assert TensorSpec((2,)) == TensorSpec((2,))
