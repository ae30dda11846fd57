"""The tightest replay that we can write by hand: rows packed into one array, priorities in a tree 128 wide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from workloads.measuring import Metrics, Request, microseconds
from workloads.settings import ACTION, ALPHA, BETA, OBSERVATION, REPLAY_BATCH, REPLAY_FRAMES, REPLAY_ROWS

WIDTH = 128
Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


class Rows:
    """Observation, next one, action, reward and discount, side by side."""

    def __init__(self, rows: int) -> None:
        self.size = 2 * OBSERVATION + ACTION + 2
        self.array = np.ones((rows, self.size), np.float32)
        self.tensor = torch.from_numpy(self.array)
        self.position = 0

    def add(self, block: Floats) -> Integers:
        """One assignment; blocks that do not fit at the end begin anew."""
        if self.position + len(block) > len(self.array):
            self.position = 0
        first, self.position = self.position, self.position + len(block)
        self.array[first : self.position] = block
        return np.arange(first, self.position)

    def gather(self, rows: Integers) -> torch.Tensor:
        return self.tensor.index_select(0, torch.from_numpy(rows))


class WideTree:
    """Sums of 128 priorities, of 128 sums, and so on up to one row."""

    def __init__(self, rows: int) -> None:
        blocks = -(-rows // WIDTH)
        tops = -(-blocks // WIDTH)
        self.leaves = np.zeros((tops * WIDTH, WIDTH), np.float32)
        self.middle = np.zeros((tops, WIDTH), np.float32)
        self.top = np.zeros(tops, np.float32)
        self.update(np.arange(rows), np.ones(rows, np.float32))

    def update(self, rows: Integers, priority: Floats) -> None:
        blocks = rows // WIDTH
        self.leaves.reshape(-1)[rows] = priority
        self.middle.reshape(-1)[blocks] = self.leaves[blocks].sum(1)
        tops = blocks // WIDTH
        self.top[tops] = self.middle[tops].sum(1)

    def draw(self, generator: np.random.Generator, number: int) -> tuple[Integers, Floats]:
        """Rows, and how likely each is."""
        sums = self.top.cumsum()
        aim = generator.random(number, np.float32) * sums[-1]
        top = np.minimum(sums.searchsorted(aim, "right"), len(sums) - 1)
        aim = aim - sums[top] + self.top[top]
        block, aim = _descend(self.middle[top], aim)
        block += top * WIDTH
        row, _ = _descend(self.leaves[block], aim)
        return block * WIDTH + row, self.leaves[block, row] / sums[-1]


def _descend(weights: Floats, aim: Floats) -> tuple[Integers, Floats]:
    """The entry of each row where its cumulated weights pass the aim, and what is left of the aim."""
    sums = weights.cumsum(1)
    entry = np.minimum((sums <= aim[:, None]).sum(1), WIDTH - 1)
    which = np.arange(len(entry))
    return entry, aim - sums[which, entry] + weights[which, entry]


def uniform_calls(rows: int) -> dict[str, Callable[[], object]]:
    generator = np.random.default_rng(0)
    stored = Rows(rows)
    blocks = {number: np.ones((number, stored.size), np.float32) for number in (1, 8, 64)}

    def adding(number: int) -> Callable[[], object]:
        return lambda: stored.add(blocks[number])

    calls: dict[str, Callable[[], object]] = {
        "sample 256": lambda: stored.gather(generator.integers(0, rows, REPLAY_BATCH))
    }
    return calls | {f"add {number}": adding(number) for number in blocks}


def prioritized_calls(rows: int) -> dict[str, Callable[[], object]]:
    generator = np.random.default_rng(0)
    stored, tree = Rows(rows), WideTree(rows)
    block = np.ones((8, stored.size), np.float32)
    fresh, chosen = np.ones(8, np.float32), generator.integers(0, rows, REPLAY_BATCH)
    priority = generator.random(REPLAY_BATCH, np.float32)

    def sample() -> tuple[torch.Tensor, Floats]:
        drawn, chance = tree.draw(generator, REPLAY_BATCH)
        return stored.gather(drawn), (chance * rows) ** -BETA

    def both() -> None:
        drawn, chance = tree.draw(generator, REPLAY_BATCH)
        _ = stored.gather(drawn), (chance * rows) ** -BETA
        tree.update(drawn, (priority + 1e-6) ** ALPHA)

    return {
        "prioritized sample 256": sample,
        "prioritized update 256": lambda: tree.update(chosen, (priority + 1e-6) ** ALPHA),
        "prioritized sample, then update 256": both,
        "prioritized add 8": lambda: tree.update(stored.add(block), fresh),
    }


def frame_calls(frames: int) -> dict[str, Callable[[], object]]:
    generator = np.random.default_rng(0)
    stored = torch.zeros(frames, 84 * 84, dtype=torch.uint8)
    stored.fill_(1)
    back, block = np.arange(-3, 1), torch.zeros(8, 84 * 84, dtype=torch.uint8)

    def stacks(count: int) -> torch.Tensor:
        wanted = generator.integers(3, frames, count)[:, None] + back
        return stored.index_select(0, torch.from_numpy(wanted.reshape(-1)))

    def add() -> None:
        stored[:8] = block

    return {
        "stacks of frames 32": lambda: stacks(32),
        "stacks of frames 256": lambda: stacks(256),
        "frames add 8": add,
    }


def measure(request: Request) -> Metrics:
    calls = {**uniform_calls(REPLAY_ROWS), **prioritized_calls(REPLAY_ROWS), **frame_calls(REPLAY_FRAMES)}
    return microseconds(calls, request.seconds)
