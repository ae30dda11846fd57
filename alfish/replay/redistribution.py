"""The stored experience of one number of environments, for another."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from alfish.errors import CheckpointMisfit
from alfish.replay.extent import spans
from alfish.types import StepType

_STEP_TYPE = "0.step_type"  # of the time step, the first part of a row
_SHORTEST = 2  # time steps that a transition takes

_log = logging.getLogger(__name__)


def redistribute(state: dict[str, Any], num_environments: int, max_length: int) -> dict[str, Any]:
    """The state of a replay buffer with `num_environments` rings that holds what another one held.

    More rings: the new ones begin empty. Fewer: each takes several of the old ones, one after the other, as if the
    episodes had been broken off in between. When that is too much, the newest part of each of them stays.

    Args:
        state: what `ReplayBuffer.state_dict` gave.
        num_environments: rings.
        max_length: time steps kept per ring.
    """
    before, stored = len(state["newest"]), int((state["newest"] - state["oldest"] + 1).sum())
    if num_environments > before:
        made = _with_empty_rings(state, num_environments - before)
    else:
        made = _joined(state, num_environments, max_length)
    kept = int((made["newest"] - made["oldest"] + 1).sum())
    _log.info("replay: %d of %d time steps of %d environments, now in %d", kept, stored, before, num_environments)
    return made


def _with_empty_rings(state: dict[str, Any], number: int) -> dict[str, Any]:
    none = torch.zeros(number, dtype=torch.int64)
    made = {**state, "oldest": torch.cat((state["oldest"], none)), "newest": torch.cat((state["newest"], none - 1))}
    priorities = state["priorities"]
    if priorities:
        bounds = {name: torch.cat((priorities[name], none)) for name in ("first", "end")}
        made["priorities"] = {**priorities, **bounds}
    return made


def _joined(state: dict[str, Any], num_environments: int, max_length: int) -> dict[str, Any]:
    counts = (state["newest"] - state["oldest"] + 1).tolist()
    saved: dict[str, torch.Tensor] = state["rows"]["leaves"]
    leaves, rows = saved, torch.zeros(0, dtype=torch.int64)
    lengths = [0] * num_environments
    if saved:
        most = -(-len(counts) // num_environments)
        if max_length < _SHORTEST * most:
            raise CheckpointMisfit(
                f"the saved replay is of {len(counts)} environments, this run has {num_environments}: the experience "
                f"of {most} does not fit into one ring of {max_length} time steps. Set "
                f"create_environment.num_parallel_environments = {len(counts)}, or raise "
                f"TrainerConfig.replay_buffer_length; {most * max(counts)} holds all of it"
            )
        step_type = saved[_STEP_TYPE].clone()
        everything = torch.split(torch.arange(len(step_type)), counts)
        rings = [_join(everything[ring::num_environments], max_length, step_type) for ring in range(num_environments)]
        rows, lengths = torch.cat(rings), [len(ring) for ring in rings]
        leaves = {path: leaf[rows] for path, leaf in {**saved, _STEP_TYPE: step_type}.items()}
    length = torch.tensor(lengths)
    return {
        **state,
        "oldest": torch.zeros_like(length),
        "newest": length - 1,
        "rows": {**state["rows"], "leaves": leaves},
        "priorities": state["priorities"] and _priorities(state, rows, length),
    }


def _join(pieces: Sequence[torch.Tensor], capacity: int, step_type: torch.Tensor) -> torch.Tensor:
    """The saved rows of one ring; in `step_type` the episodes at the seams are ended and begun."""
    pieces = [piece for piece in pieces if len(piece)]
    shares = _shares([len(piece) for piece in pieces], capacity)
    joined = []
    for index, (piece, share) in enumerate(zip(pieces, shares, strict=True)):
        kept = piece[len(piece) - share :]
        if index > 0:
            # An end without anything before it would be joined to the seam; nothing is learned from it.
            kept = kept[1:] if step_type[kept[0]] == StepType.LAST else kept
            step_type[kept[:1]] = StepType.FIRST
        if index < len(pieces) - 1 and len(kept):
            # Likewise a beginning without anything after it.
            kept = kept[:-1] if step_type[kept[-1]] == StepType.FIRST else kept
            step_type[kept[-1:]] = StepType.LAST
        joined.append(kept)
    return torch.cat(joined) if joined else torch.zeros(0, dtype=torch.int64)


def _shares(counts: Sequence[int], capacity: int) -> list[int]:
    """How many of each fit together: equally many, and what one does not need goes to the others."""
    shares = [0] * len(counts)
    for done, index in enumerate(sorted(range(len(counts)), key=counts.__getitem__)):
        shares[index] = min(counts[index], capacity // (len(counts) - done))
        capacity -= shares[index]
    return shares


def _priorities(state: dict[str, Any], rows: torch.Tensor, length: torch.Tensor) -> dict[str, Any]:
    """Those of the saved `rows`, which are in rings of `length` `[env]` now; where there is none, the largest."""
    saved, oldest, newest = state["priorities"], state["oldest"].numpy(), state["newest"].numpy()
    counts = newest - oldest + 1
    env_ids, positions = spans(saved["first"].numpy(), saved["end"].numpy())
    stored = (positions >= oldest[env_ids]) & (positions <= newest[env_ids])
    places = (positions - oldest[env_ids] + (counts.cumsum() - counts)[env_ids])[stored]
    by_row = torch.full((int(counts.sum()),), float(saved["largest"]), dtype=torch.float64)
    by_row[torch.from_numpy(places)] = saved["priorities"][torch.from_numpy(stored)]
    return {**saved, "first": torch.zeros_like(length), "end": length, "priorities": by_row[rows]}
