"""A replay buffer of plain lists, to compare with."""

from __future__ import annotations

from collections.abc import Sequence


class NaiveReplay:
    """Keeps every time step ever added, and per environment the range that a ring would still hold."""

    def __init__(self, num_envs: int, max_length: int, ignored: int) -> None:
        self.max_length, self.ignored = max_length, ignored
        self.count = [0] * num_envs  # time steps so far
        self.oldest = [0] * num_envs
        self.priority: dict[tuple[int, int], float] = {}
        self.largest = 1.0

    def add(self, env_ids: Sequence[int], length: int) -> None:
        for env in env_ids:
            self.count[env] += length if self.count[env] else length + 1
            self.oldest[env] = max(self.oldest[env], self.count[env] - self.max_length)

    def clear(self) -> None:
        for env, count in enumerate(self.count):
            self.oldest[env] = max(self.oldest[env], count - 1 - self.ignored)

    def starts(self, length: int) -> list[tuple[int, int]]:
        return [
            (env, position)
            for env, count in enumerate(self.count)
            for position in range(self.oldest[env] + self.ignored, count - length + 1)
        ]

    def prioritize(self, length: int) -> dict[tuple[int, int], float]:
        """Priorities for a draw of this length: starts that were none at the last draw get the largest so far."""
        self.priority = {start: self.priority.get(start, self.largest) for start in self.starts(length)}
        return self.priority

    def update(self, starts: Sequence[tuple[int, int]], priorities: Sequence[float]) -> None:
        for start, priority in zip(starts, priorities, strict=True):
            if start in self.priority:
                self.priority[start] = priority
            self.largest = max(self.largest, priority)
