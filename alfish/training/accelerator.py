"""Memory of the accelerator that torch keeps for later."""

from __future__ import annotations

import torch


def empty_cache(device: str) -> None:
    """Gives it back, so that other processes can have it. Devices that keep none, such as the CPU, are left alone."""
    backend = getattr(torch, torch.device(device).type, None)
    give_back = getattr(backend, "empty_cache", None)
    if give_back is not None:
        give_back()
