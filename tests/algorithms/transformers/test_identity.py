from __future__ import annotations

from alfish.algorithms.transformers.identity import IdentityDataTransformer
from alfish.specs import TensorSpec
from tests.algorithms.transformers.tape import stream


def test_it_returns_the_very_time_step() -> None:
    transformer = IdentityDataTransformer(TensorSpec((2,)))
    (step,) = stream((), 1)
    assert transformer.transform_timestep(step, ()) == (step, ())
    assert not transformer.state_dict()
