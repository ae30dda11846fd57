from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish import nest, specs
from alfish.environments.conversion import Actions, EnvInfo, Observations, leaf_values

Box, Discrete, MultiBinary, MultiDiscrete = (
    gym.spaces.Box,
    gym.spaces.Discrete,
    gym.spaces.MultiBinary,
    gym.spaces.MultiDiscrete,
)
SPACES = {
    "box": Box(-1.0, 1.0, (3,), np.float32),
    "box of float64": Box(-1.0, 1.0, (2, 2), np.float64),
    "scalar box": Box(0.0, 1.0, (), np.float32),
    "picture": Box(0, 255, (4, 4, 3), np.uint8),
    "discrete": Discrete(5),
    "discrete from -2": Discrete(5, start=-2),
    "multi discrete": MultiDiscrete([2, 3]),
    "multi binary": MultiBinary(3),
    "dict": gym.spaces.Dict({"b": Discrete(2), "a": Box(-1.0, 1.0, (2,))}),
    "tuple": gym.spaces.Tuple((Discrete(2), gym.spaces.Dict({"x": MultiBinary(2)}))),
}


@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_samples_of_every_space_survive_both_ways(space: gym.Space[Any]) -> None:
    space.seed(0)
    samples = [space.sample() for _ in range(3)]
    observations, actions = Observations(space, 3), Actions(space, 3, clip=True)
    arrays = observations.arrays()
    for index, sample in enumerate(samples):
        observations.write(arrays, index, sample)
    tensors = observations.tensors(arrays)
    for tensor, spec in zip(nest.leaves(tensors), nest.leaves(specs.from_space(space)), strict=True):
        assert tensor.shape == (3, *spec.shape)
        assert tensor.dtype == spec.dtype
    stored = observations.arrays()
    actions.store(tensors, stored)
    for back, sample in zip(actions.each(stored), samples, strict=True):
        assert space.contains(back)
        for one, other in zip(leaf_values(actions.spec, back), leaf_values(actions.spec, sample), strict=True):
            assert np.asarray(one).dtype == np.asarray(other).dtype
            np.testing.assert_array_equal(np.float32(one), np.float32(other))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_a_batch_equals_its_rows(space: gym.Space[Any]) -> None:
    batched = gym.vector.utils.batch_space(space, 3)
    batched.seed(0)
    sample = batched.sample()
    observations, actions = Observations(space, 3), Actions(space, 3, clip=True)
    arrays = observations.arrays()
    for index, row in enumerate(gym.vector.utils.iterate(batched, sample)):
        observations.write(arrays, index, row)
    batch = observations.arrays()
    observations.write_batch(batch, sample)
    tensors = observations.tensors(batch)
    expected = nest.leaves(observations.tensors(arrays))
    assert all(torch.equal(a, b) for a, b in zip(nest.leaves(tensors), expected, strict=True))
    stored = observations.arrays()
    actions.store(tensors, stored)
    assert batched.contains(actions.batch(stored))


@pytest.mark.parametrize(
    "action",
    [
        torch.tensor([[0.5], [-1.0]], requires_grad=True),
        torch.tensor([[0.5], [-1.0]], dtype=torch.float64),
        torch.tensor([[0.5], [-1.0]], dtype=torch.bfloat16),
    ],
    ids=["with gradient", "float64", "a dtype that numpy has not"],
)
def test_actions_of_another_kind_are_converted(action: torch.Tensor) -> None:
    actions = Actions(Box(-1.0, 1.0, (1,), np.float32), 2, clip=True)
    stored = [np.zeros((2, 1), np.float32)]
    actions.store(action, stored)
    assert stored[0].tolist() == [[0.5], [-1.0]]


def test_fractions_of_a_whole_action_are_cut_off() -> None:
    stored = [np.zeros(2, np.int64)]
    Actions(Discrete(5), 2, clip=True).store(torch.tensor([1.0, 3.9]), stored)
    assert stored[0].tolist() == [1, 3]


def test_an_action_is_not_spread_over_the_batch() -> None:
    with pytest.raises(ValueError, match=r"an action of shape \(1,\); the environment takes \(2,\)"):
        Actions(Discrete(5), 2, clip=True).store(torch.tensor([1]), [np.zeros(2, np.int64)])


def test_dicts_are_read_by_key() -> None:
    space = gym.spaces.Dict({"a": Discrete(9), "b": Discrete(9)})
    observations = Observations(space, 1)
    arrays = observations.arrays()
    observations.write_batch(arrays, {"b": np.array([2]), "a": np.array([1])})
    assert nest.map(int, observations.tensors(arrays)) == {"a": 1, "b": 2}


def test_env_info_of_a_batch_is_nan_where_the_mask_says_so() -> None:
    info = EnvInfo(("score", "absent"), 3)
    arrays = info.empty()
    info.write_batch(arrays, {"score": np.array([1, 2, 3]), "_score": np.array([True, False, True])})
    np.testing.assert_array_equal(arrays["score"], np.array([1, np.nan, 3], np.float32))
    assert np.isnan(arrays["absent"]).all()
    info.write_batch(arrays, {"score": np.arange(3)})
    np.testing.assert_array_equal(arrays["score"], np.arange(3, dtype=np.float32))
