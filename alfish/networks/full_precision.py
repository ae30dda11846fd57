"""Where autocast would cost more exactness than it saves time."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

_AS_IT_IS = nullcontext()


def full_precision(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """Inside the block products on the device of `tensor` are computed in the dtypes of their arguments.

    >>> with torch.autocast("cpu"), full_precision(torch.ones(2)):
    ...     (torch.ones(1, 2) @ torch.ones(2)).dtype
    torch.float32
    """
    device = tensor.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else _AS_IT_IS
