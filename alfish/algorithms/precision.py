"""Mixed precision: large products in 16 bits, everything that is kept in 32.

Autocast decides operation by operation. Parameters, optimizer state, experience, losses and actions stay float32:
matrix products and convolutions alone use copies in 16 bits. bfloat16 has the range of float32. float16 has not, and
small gradients would vanish in it, so there the loss is scaled up (Micikevicius et al. 2018, section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch

from alfish import nest
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems, Problem

_AS_IT_IS = nullcontext()
_REDUCED = frozenset({torch.bfloat16, torch.float16})


@dataclass(frozen=True)
class Precision:
    """What a run computes in.

    Args:
        device: type of the device: 'cpu', 'cuda'.
        dtype: of large products; None: as all else.
    """

    device: str
    dtype: torch.dtype | None = None

    @classmethod
    def of(cls, config: TrainerConfig) -> Precision:
        """
        Raises:
            ConfigProblems: the device has no autocast.
        """
        device = torch.device(config.device).type
        return cls(device, _reduced_dtype(device) if config.enable_amp else None)

    def autocast(self) -> AbstractContextManager[Any]:
        """Inside the block large products are computed in `dtype`."""
        if self.dtype is None:
            return _AS_IT_IS
        # No cache: older versions of torch use a copy that was made without gradient again where one is needed.
        return torch.autocast(self.device, self.dtype, cache_enabled=False)

    def kept(self, values: Any) -> Any:
        """`values`, a nest, for keeping: what autocast left in 16 bits becomes float32, with its graph."""
        if self.dtype is None:
            return values
        return nest.map(lambda leaf: leaf.float() if getattr(leaf, "dtype", None) in _REDUCED else leaf, values)

    def make_scaler(self) -> LossScaler | None:
        """What keeps gradients from vanishing; None where they do not."""
        return LossScaler() if self.dtype is torch.float16 else None


class LossScaler:
    """Scales a loss up, and its gradients down again, as far as they do not overflow.

    After an overflow there is no update, and the scale is halved; after `growth_interval` updates in a row without one
    it is doubled.

    Args:
        scale: to begin with.
        growth_interval: updates.
    """

    def __init__(self, scale: float = 65536.0, growth_interval: int = 2000) -> None:
        self.scale = scale
        self._growth_interval = growth_interval
        self._num_good = 0  # in a row

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self.scale

    @torch.no_grad()
    def unscale(self, gradients: Sequence[torch.Tensor]) -> None:
        """Makes the gradients of a scaled loss those of the loss, in place."""
        if gradients:
            torch._foreach_mul_(list(gradients), 1 / self.scale)

    def is_overflow(self, norms: Mapping[str, float]) -> bool:
        """Called with the gradient norms of every update; whether to go on without it, on a smaller scale.

        Without scaling gradients can still be not finite, and then it is the loss that is to blame: False.
        """
        if all(map(isfinite, norms.values())):
            self._num_good += 1
            if self._num_good == self._growth_interval:
                self.scale, self._num_good = 2 * self.scale, 0
            return False
        self._num_good = 0
        if self.scale <= 1:
            return False
        self.scale /= 2
        return True

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self.scale, "num_good": self._num_good}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.scale, self._num_good = state["scale"], state["num_good"]


def _reduced_dtype(device: str) -> torch.dtype:
    if device == "cpu":
        return torch.bfloat16
    if device == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if not torch.amp.is_autocast_available(device):
        message = f"there is no autocast on {device!r}, only on cpu and cuda. Leave it out"
        raise ConfigProblems([Problem(("TrainerConfig.enable_amp", "TrainerConfig.device"), message)])
    return torch.get_autocast_dtype(device)
