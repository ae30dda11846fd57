from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from alfish.algorithms.action_parts import ActionParts
from alfish.algorithms.entropy_temperature import default_target_entropy
from alfish.algorithms.sac_networks import check_networks, check_squashed, target_entropies
from alfish.errors import ConfigError
from alfish.networks.actor_distribution import ActorDistributionNetwork
from alfish.networks.projection import NormalProjectionNetwork, StableNormalProjectionNetwork
from alfish.specs import BoundedTensorSpec, TensorSpec

BOX = BoundedTensorSpec((2,), torch.float32, np.float32(-1), np.float32(1))
FREE = BoundedTensorSpec((2,), torch.float32, np.float32(-np.inf), np.float32(np.inf))
CHOICE = BoundedTensorSpec((), torch.int64, np.asarray(0), np.asarray(1))
SPECS: dict[str, Any] = {"continuous": BOX, "discrete": CHOICE, "mixed": (CHOICE, BOX)}
RIGHT = {"continuous": (1, 1, None), "discrete": (None, None, 1), "mixed": (1, None, 1)}


@pytest.mark.parametrize("kind", SPECS)
def test_the_right_networks_pass(kind: str) -> None:
    check_networks(ActionParts(SPECS[kind]), *RIGHT[kind])


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("place", range(3))
def test_missing_and_extra_networks_are_named(kind: str, place: int) -> None:
    given = list(RIGHT[kind])
    missing = given[place] is not None
    given[place] = None if missing else 1
    name = ("actor_network_ctor", "critic_network_ctor", "q_network_ctor")[place]
    expected = (
        rf"for {kind} actions is missing. Add\n    SacAlgorithm.{name} = @"
        if missing
        else f"SacAlgorithm.{name}: has no use for {kind} actions"
    )
    with pytest.raises(ConfigError, match=expected):
        check_networks(ActionParts(SPECS[kind]), *given)


def test_a_bounded_action_needs_a_squashed_distribution() -> None:
    def actor(spec: Any, projection: Any) -> Any:
        return ActorDistributionNetwork(TensorSpec((3,)), spec, continuous_projection_net_ctor=projection)

    observation = TensorSpec((3,))
    check_squashed(actor(BOX, StableNormalProjectionNetwork), observation, BOX)
    squashed = partial(NormalProjectionNetwork, scale_distribution=True)
    check_squashed(actor({"a": BOX, "b": BOX}, squashed), observation, {"a": BOX, "b": BOX})
    check_squashed(actor(FREE, NormalProjectionNetwork), observation, FREE)
    with pytest.raises(ConfigError, match=r"(?s)DiagonalNormal.*continuous_projection_net_ctor = @Stable"):
        check_squashed(actor((BOX,), NormalProjectionNetwork), observation, (BOX,))


def test_target_entropies() -> None:
    assert target_entropies(ActionParts(BOX), None) == (0.0, -2.0)
    assert target_entropies(ActionParts(BOX), -5) == (-5.0, -5.0)
    assert target_entropies(ActionParts((CHOICE, BOX)), (0.3, -1.0)) == (0.3, -1.0)
    assert target_entropies(ActionParts((CHOICE, BOX)), None) == (default_target_entropy(CHOICE), -2.0)
    with pytest.raises(ConfigError, match=r"a pair \(discrete, continuous\)"):
        target_entropies(ActionParts((CHOICE, BOX)), -1.0)
    with pytest.raises(ConfigError, match="give one number"):
        target_entropies(ActionParts(BOX), (0.3, -1.0))
