"""What every test gets: a gin of its own, and one torch thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def clean_state() -> Iterator[None]:
    """No test sees another's configuration, and numbers do not depend on the number of cores."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    yield
    # Most tests never touch gin: they should not pay for importing it.
    if "alfish.config.gin_state" in sys.modules:
        sys.modules["alfish.config.gin_state"].clear()
    elif "gin" in sys.modules:
        sys.modules["gin"].clear_config()
