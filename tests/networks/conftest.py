from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Weights and inputs are the same in every run."""
    torch.manual_seed(0)
