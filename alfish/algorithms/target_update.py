"""Target networks: slow copies of the networks that are trained (Mnih et al. 2015, Lillicrap et al. 2016)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class TargetUpdater(nn.Module):
    """Moves the parameters of a target network towards those of its source.

    `target = (1 - tau) * target + tau * source` at every `period`-th step. Starts the target equal to the source and
    without gradient. Buffers, such as running statistics, are copied.

    Args:
        source: the network that is trained.
        target: one of the same structure.
        tau: share of the source; 1 copies it.
        period: steps between moves.
    """

    num_steps: torch.Tensor

    def __init__(self, source: nn.Module, target: nn.Module, tau: float = 1.0, period: int = 1) -> None:
        super().__init__()
        target.load_state_dict(source.state_dict())
        target.requires_grad_(False)
        # In lists, so that the networks do not become children: they belong to the algorithm.
        self._source: list[torch.Tensor] = list(source.parameters())
        self._target: list[torch.Tensor] = list(target.parameters())
        # Of modules, which may put new tensors in their places.
        pairs = zip(source.modules(), target.modules(), strict=True)
        self._buffer_pairs = [(one._buffers, other._buffers) for one, other in pairs if one._buffers]
        self._tau = tau
        self._period = period
        self._count = 0  # of steps; reading it from a tensor at every step would cost more than moving a small target
        # In the checkpoint, so that a resumed run moves at the same updates.
        self.register_buffer("num_steps", torch.zeros((), dtype=torch.int64))

    @property
    def is_due(self) -> bool:
        """Whether the next `step` moves the target."""
        return (self._count + 1) % self._period == 0

    def step(self) -> None:
        """Once after every update of the source."""
        moves = self.is_due
        if self._period > 1:
            self.__dict__["_count"] += 1  # by its name, a module would look first whether it is a parameter
        if moves:
            self._move()

    @torch.no_grad()
    def _move(self) -> None:
        torch._foreach_lerp_(self._target, self._source, self._tau)
        for source, target in self._buffer_pairs:
            for name, original in source.items():
                copy = target[name]
                if copy is not None and original is not None:
                    copy.copy_(original)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        self.num_steps.fill_(self._count)
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, *args: Any) -> None:
        self.num_steps.fill_(self._count)  # which stays if it is not among what is loaded
        super()._load_from_state_dict(*args)
        self._count = int(self.num_steps)
