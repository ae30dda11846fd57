from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish import nest
from alfish.errors import ConfigError
from alfish.networks.encoding import EncodingNetwork
from alfish.networks.network import Network
from alfish.networks.recurrent import GRUEncodingNetwork
from alfish.networks.shared_encoding import SharedEncoding
from alfish.specs import TensorSpec
from tests.networks.test_recurrent import B, T, random_state, some_resets, step_by_step

VECTOR = TensorSpec((3,))
MASKED = {"position": VECTOR, "action_mask": TensorSpec((4,), torch.int8)}


def test_gives_the_features_of_its_encoding() -> None:
    encoding = EncodingNetwork(VECTOR, fc_layer_params=(5,))
    shared = SharedEncoding(VECTOR, encoding)
    assert shared.output_spec == TensorSpec((5,))
    x = torch.randn(2, 3)
    features, state = shared(x)
    assert torch.equal(features, encoding(x)[0])
    assert state == ()


def test_an_action_mask_is_handed_on_as_it_is() -> None:
    shared = SharedEncoding(MASKED, EncodingNetwork(MASKED, fc_layer_params=(5,)))
    assert shared.output_spec == {"features": TensorSpec((5,)), "action_mask": MASKED["action_mask"]}
    mask = torch.randint(0, 2, (2, 4), dtype=torch.int8)
    seen, _ = shared({"position": torch.randn(2, 3), "action_mask": mask})
    assert seen["action_mask"] is mask
    assert seen["features"].shape == (2, 5)


@pytest.mark.parametrize("spec", [VECTOR, MASKED], ids=["vector", "masked"])
@pytest.mark.parametrize("has_memory", [False, True])
def test_unrolling_equals_its_steps(spec: Any, has_memory: bool) -> None:
    torch.manual_seed(0)
    make: Any = GRUEncodingNetwork if has_memory else EncodingNetwork
    shared = SharedEncoding(spec, make(spec))
    inputs = nest.map(lambda leaf: torch.randn(T, B, *leaf.shape).to(leaf.dtype), spec)
    state = random_state(shared)
    expected, expected_state = step_by_step(shared, inputs, state, some_resets())
    output, final_state = shared.unroll(inputs, state, some_resets())
    assert nest.same_structure(output, expected)
    for ours, theirs in zip(nest.leaves((output, final_state)), nest.leaves((expected, expected_state)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_network_without_a_vector_is_refused() -> None:
    with pytest.raises(ConfigError, match="Network does not say how many features it gives"):
        SharedEncoding(VECTOR, Network(VECTOR))
