from __future__ import annotations

import gymnasium as gym
import pytest

from alfish.environments.spaces import assemble, leaf_values, named_leaves, structure

SPACE = gym.spaces.Dict(
    {"place": gym.spaces.Box(-1, 1, (3,)), "parts": gym.spaces.Tuple((gym.spaces.Discrete(4), gym.spaces.Discrete(5)))}
)


def test_leaves_have_paths_and_an_order() -> None:
    assert {path: space.shape for path, space in named_leaves(SPACE).items()} == {
        path: () if "parts" in path else (3,) for path in named_leaves(SPACE)
    }
    assert sorted(named_leaves(SPACE)) == ["parts.0", "parts.1", "place"]
    assert list(named_leaves(gym.spaces.Discrete(3))) == [""]


def test_values_come_apart_and_together_by_key_whatever_their_order() -> None:
    nested = structure(SPACE)
    value = {"parts": (1, 2), "place": "here"}
    leaves = leaf_values(nested, dict(reversed(value.items())))
    assert dict(zip(named_leaves(SPACE), leaves, strict=True)) == {"parts.0": 1, "parts.1": 2, "place": "here"}
    assert assemble(nested, leaves) == value


@pytest.mark.parametrize("value", [{"parts": (1, 2)}, {"parts": (1,), "place": 0}, 3])
def test_other_parts_are_refused(value: object) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        leaf_values(structure(SPACE), value)
