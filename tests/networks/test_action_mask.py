from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish.errors import ConfigError
from alfish.networks.action_mask import MaskReader, apply_mask, existing_choices, without_mask
from alfish.specs import BoundedTensorSpec, TensorSpec

CHOICE = BoundedTensorSpec((), torch.int64, np.asarray(2), np.asarray(4))
RAGGED = BoundedTensorSpec((2,), torch.int64, np.array([0, 1]), np.array([1, 3]))
EVEN = BoundedTensorSpec((2,), torch.int64, np.asarray(0), np.asarray(2))
BOX = BoundedTensorSpec((2,), torch.float32, np.float32(-1), np.float32(1))


def observation_spec(*shape: int) -> dict[str, TensorSpec]:
    return {"x": TensorSpec((4,)), "action_mask": TensorSpec(shape, torch.int8)}


def test_without_mask() -> None:
    assert without_mask(observation_spec(3)) == {"x": TensorSpec((4,))}
    assert without_mask(TensorSpec((4,))) == TensorSpec((4,))


def test_no_mask() -> None:
    assert MaskReader({"x": TensorSpec((4,))}, CHOICE)({"x": torch.zeros(1, 4)}) is None
    assert MaskReader(TensorSpec((4,)), CHOICE)(torch.zeros(1, 4)) is None


def test_one_choice() -> None:
    mask = MaskReader(observation_spec(3), CHOICE)({"action_mask": torch.tensor([[0, 1, 1]], dtype=torch.int8)})
    assert mask.tolist() == [[False, True, True]]


def test_choices_of_unequal_sizes_are_flat_one_after_the_other() -> None:
    assert existing_choices(RAGGED).tolist() == [[True, True, False], [True, True, True]]
    mask = MaskReader(observation_spec(5), RAGGED)({"action_mask": torch.tensor([[[1, 0, 1, 0, 1]]])})
    assert mask.tolist() == [[[[True, False, False], [True, False, True]]]]


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_choices_of_equal_sizes_come_in_either_shape(shape: tuple[int, ...]) -> None:
    values = torch.tensor([1, 0, 1, 0, 1, 1]).reshape(1, *shape)
    mask = MaskReader(observation_spec(*shape), EVEN)({"action_mask": values})
    assert mask.int().tolist() == [[[1, 0, 1], [0, 1, 1]]]


def test_nested_actions_have_nested_masks() -> None:
    action = {"go": CHOICE, "turn": BOX, "more": (EVEN, CHOICE)}
    spec = {"x": TensorSpec((4,)), "action_mask": {"go": TensorSpec((3,)), "more": (TensorSpec((6,)),)}}
    inputs = {"action_mask": {"go": torch.tensor([[1, 0, 0]]), "more": (torch.ones(1, 6),)}}
    assert MaskReader(spec, action, "go")(inputs).tolist() == [[True, False, False]]
    assert MaskReader(spec, action, "more.0")(inputs).shape == (1, 2, 3)
    assert MaskReader(spec, action, "more.1")(inputs) is None


def test_one_mask_serves_the_only_discrete_action() -> None:
    action = {"go": CHOICE, "turn": BOX}
    assert MaskReader(observation_spec(3), action, "go")({"action_mask": torch.ones(1, 3)}).all()
    with pytest.raises(ConfigError, match=r"2 discrete parts \(go, stop\)"):
        MaskReader(observation_spec(3), {"go": CHOICE, "stop": CHOICE}, "go")


def test_wrong_masks_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"has shape \(4,\), but the action has choices of \(3,\)"):
        MaskReader(observation_spec(4), CHOICE)
    with pytest.raises(ConfigError, match=r"choices of \(6,\) or \(2, 3\)"):
        MaskReader(observation_spec(3, 2), EVEN)
    with pytest.raises(ConfigError, match=r"action_mask.jump, but there is no such discrete action; there is go"):
        MaskReader({"action_mask": {"jump": TensorSpec((3,))}}, {"go": CHOICE}, "go")
    with pytest.raises(ConfigError, match="one that is not nested"):
        MaskReader({"action_mask": {"jump": TensorSpec((3,))}}, CHOICE)


def test_apply_mask_keeps_allowed_logits() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    masked = apply_mask(logits, torch.tensor([[True, False, True]]))
    assert masked[0, 0] == 1
    assert masked[0, 2] == 3
    assert masked[0, 1] < -1e8
