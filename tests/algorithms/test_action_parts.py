from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish.algorithms.action_parts import ActionParts
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec

BOX = BoundedTensorSpec((2,), torch.float32, np.float32(-1), np.float32(1))
CHOICE = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(3))


@pytest.mark.parametrize(
    ("spec", "action", "discrete", "continuous"),
    [
        (BOX, "a", (), "a"),
        ({"x": BOX, "y": BOX}, {"x": "a", "y": "b"}, (), {"x": "a", "y": "b"}),
        (CHOICE, "a", "a", ()),
        ({"x": CHOICE}, {"x": "a"}, "a", ()),
        ((CHOICE, BOX), ("a", "b"), "a", ("b",)),
        ({"x": BOX, "y": (CHOICE, BOX)}, {"x": "a", "y": ("b", "c")}, "b", ("a", "c")),
    ],
)
def test_split_and_join(spec: object, action: object, discrete: object, continuous: object) -> None:
    parts = ActionParts(spec)
    assert parts.split(action) == (discrete, continuous)
    assert parts.join(discrete, continuous) == action
    assert parts.discrete == (CHOICE if discrete != () else None)
    assert (parts.continuous != ()) == (continuous != ())


def test_several_discrete_actions_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"one discrete action.*x: \(\), y: \(\)"):
        ActionParts({"x": CHOICE, "y": CHOICE, "z": BOX})
    with pytest.raises(ConfigError, match=r"it: \(3,\)"):
        ActionParts(BoundedTensorSpec((3,), torch.int64))
