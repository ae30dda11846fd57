from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish import specs
from alfish.errors import ConfigError
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.preprocessing import NestConcat, NestSum
from alfish.specs import BoundedTensorSpec, TensorSpec


def encode(space: gym.Space, value: object) -> list[list[float]]:
    """What the layers of a network see of one observation."""
    net = EncodingNetwork(specs.from_space(space))
    features, _ = net(specs.nest.map(lambda leaf: torch.as_tensor(np.asarray(leaf)).unsqueeze(0), value))
    assert features.shape == (1, net.output_size)
    return features[0].tolist()


def test_discrete_is_one_hot_from_its_start() -> None:
    assert encode(gym.spaces.Discrete(3, start=5), 6) == [0, 1, 0]


def test_multi_discrete_is_one_hot_per_element() -> None:
    assert encode(gym.spaces.MultiDiscrete([2, 3]), np.array([1, 2])) == [0, 1, 0, 0, 0, 1]


def test_multi_binary_is_itself() -> None:
    assert encode(gym.spaces.MultiBinary(3), np.array([1, 0, 1])) == [1, 0, 1]


def test_bytes_are_scaled() -> None:
    box = gym.spaces.Box(0, 255, (2,), np.uint8)
    assert encode(box, np.array([0, 255], np.uint8)) == [0, 1]


def test_boxes_are_flattened() -> None:
    box = gym.spaces.Box(-9, 9, (2, 2), np.float32)
    assert encode(box, np.array([[1, 2], [3, 4]], np.float32)) == [1, 2, 3, 4]
    assert encode(gym.spaces.Box(-9, 9, (), np.float32), np.float32(3)) == [3]


def test_nested_observations_are_put_side_by_side_in_the_order_of_the_spec() -> None:
    space = gym.spaces.Dict(
        a=gym.spaces.Box(-9, 9, (2,), np.float32),
        b=gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Box(-9, 9, (1,), np.float32)]),
    )
    value = {"b": (1, np.float32([7])), "a": np.float32([3, 4])}
    assert encode(space, value) == [3, 4, 0, 1, 7]


def test_the_action_mask_is_not_seen() -> None:
    space = gym.spaces.Dict(action_mask=gym.spaces.MultiBinary(3), x=gym.spaces.Box(-9, 9, (1,), np.float32))
    assert encode(space, {"action_mask": np.array([1, 0, 1]), "x": np.float32([2])}) == [2]
    with pytest.raises(ConfigError, match="nothing to encode besides 'action_mask'"):
        EncodingNetwork({"action_mask": TensorSpec((3,))})


def test_too_many_values_for_one_hot() -> None:
    with pytest.raises(ConfigError, match=r"'id' has integers of 1000000 values"):
        EncodingNetwork({"id": BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(999_999))})


def test_a_preprocessor_of_its_own_for_one_leaf() -> None:
    spec = {"word": BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(99)), "x": TensorSpec((2,))}
    embedding = torch.nn.Embedding(100, 5)
    net = EncodingNetwork(spec, input_preprocessors={"word": embedding})
    assert net.output_size == 7
    word, x = torch.randint(0, 100, (3, 4)), torch.randn(3, 4, 2)
    torch.testing.assert_close(net({"word": word, "x": x})[0], torch.cat((embedding(word), x), -1))
    assert any(parameter is embedding.weight for parameter in net.parameters())
    with pytest.raises(ConfigError, match="entry 'wrod', but the observation has 'word', 'x'"):
        EncodingNetwork(spec, input_preprocessors={"wrod": embedding})


def test_combiners() -> None:
    spec, inputs = (TensorSpec((2,)), TensorSpec((2,))), (torch.ones(1, 2), torch.full((1, 2), 3.0))
    assert EncodingNetwork(spec, preprocessing_combiner=NestSum())(inputs)[0].tolist() == [[4, 4]]
    assert EncodingNetwork(spec, preprocessing_combiner=NestConcat())(inputs)[0].tolist() == [[1, 1, 3, 3]]
    with pytest.raises(ConfigError, match=r"the leaves have \[1, 2\]; use NestConcat"):
        EncodingNetwork((TensorSpec((2,)), TensorSpec((1,))), preprocessing_combiner=NestSum())
