"""Exit codes are public: scripts depend on them."""

from __future__ import annotations

import pytest

from alfish import errors


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.ConfigError, 2),
        (errors.EnvironmentFault, 3),
        (errors.NumericFault, 4),
        (errors.StorageFault, 5),
        (errors.CheckpointError, 6),
        (errors.CheckpointMisfit, 6),
        (errors.WorkerLost, 7),
        (errors.RankFault, 7),
    ],
)
def test_exit_codes(kind: type[errors.AlfishError], code: int) -> None:
    assert kind("what happened").exit_code == code
    assert str(kind("what happened")) == "what happened"
