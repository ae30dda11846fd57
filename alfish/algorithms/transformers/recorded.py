"""Statistics of transformers from recorded data, before anybody acts."""

from __future__ import annotations

import torch

from alfish import nest, specs
from alfish.algorithms.transformers.base import DataTransformer
from alfish.replay.tape import Tape
from alfish.types import StepType, TimeStep, replace

_MOST_COLUMNS = 256  # that a tape is folded into, to be looked at side by side
_LEAST_LENGTH = 100  # of a column, at whose beginning nothing is known of what was before


@torch.no_grad()
def take_statistics(transformer: DataTransformer, tape: Tape, device: str) -> None:
    """Shows every recorded time step once to a transformer with statistics, as if somebody had acted.

    Args:
        transformer: of a run that has not begun.
        tape: the recorded data.
        device: of the statistics.
    """
    if not any(True for _ in transformer.buffers()):
        return
    time_step: TimeStep = nest.map(lambda leaf: leaf[:, 0], tape.experience().time_step)
    number = max(1, min(_MOST_COLUMNS, len(tape) // _LEAST_LENGTH))
    length = len(tape) // number
    columns = nest.map(lambda leaf: leaf[: number * length].unflatten(0, (number, length)), time_step)
    rest = nest.map(lambda leaf: leaf[number * length :].unsqueeze(0), time_step)
    for block in (columns, rest):
        state = specs.zeros(transformer.state_spec, len(block.step_type), device=device)
        for t in range(block.step_type.shape[1]):
            rows = nest.to_device(nest.map(lambda leaf, t=t: leaf[:, t], block), device)
            if t == 0:  # what is carried from step to step begins here
                rows = replace(rows, step_type=torch.full_like(rows.step_type, StepType.FIRST))
            _, state = transformer.transform_timestep(rows, state)
