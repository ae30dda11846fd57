"""`TrainerConfig.ddp_paras_check_interval`: whether all ranks still train the same model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

import torch
from torch import nn

from alfish.collective import Collective
from alfish.errors import RankFault


class ParameterCheck:
    """Compares parameters and saved buffers, by digests of their bytes. A difference ends the run on every rank.

    Args:
        ranks: that train together.
        model: what they train.
        interval: iterations from one check to the next; 0: none is made.
    """

    def __init__(self, ranks: Collective, model: nn.Module, interval: int) -> None:
        self._ranks, self._model = ranks, model
        self._interval = interval if ranks.size > 1 else 0

    def after(self, iteration: int) -> None:
        """Called by all ranks after every iteration.

        Raises:
            RankFault: the ranks have different models.
        """
        if not self._interval or iteration % self._interval:
            return
        own = digests(self._model)
        whole = sha256("".join(f"{name} {digest}\n" for name, digest in own.items()).encode()).hexdigest()
        if len(set(self._ranks.gathered(whole))) == 1:
            return
        raise RankFault(
            f"after iteration {iteration}, {difference(self._ranks.gathered(own))}. Something changed it on one rank "
            "alone: code that draws random numbers or looks at its own data, or machines that compute differently. "
            "Nothing of this iteration is saved; --root_dir goes on from the last checkpoint"
        )


def digests(model: nn.Module) -> dict[str, str]:
    """Of the bytes, by name; shape and type count as well."""
    state = model.state_dict()
    return {name: _digest(value) for name, value in state.items() if isinstance(value, torch.Tensor)}


def difference(by_rank: Sequence[Mapping[str, str]]) -> str:
    """The first name that is not the same everywhere, with the ranks that agree on it."""
    names = list(dict.fromkeys(name for each in by_rank for name in each))
    differing = [name for name in names if len({each.get(name) for each in by_rank}) > 1]
    groups: dict[str | None, list[int]] = {}
    for rank, each in enumerate(by_rank):
        groups.setdefault(each.get(differing[0]), []).append(rank)
    ranks = " but another on ".join(f"rank {', '.join(map(str, group))}" for group in groups.values())
    others = f", and so are {len(differing) - 1} more of {len(names)}" if len(differing) > 1 else ""
    return f"the parameter {differing[0]} is one thing on {ranks}{others}"


def _digest(tensor: torch.Tensor) -> str:
    values = tensor.detach().cpu().contiguous()
    whole = sha256(f"{values.dtype} {tuple(values.shape)} ".encode())
    whole.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
