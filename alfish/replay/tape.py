"""Recorded experience, in the order of time."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import torch

from alfish import nest
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.types import Experience, Nest, StepType, TimeStep, record, replace


@record
class Tape:
    """`N` time steps in a row, each with the action that was taken there.

    Where a row is LAST, and at the end of the tape, the action is any valid one.
    """

    step_type: torch.Tensor  # int32 [N]
    reward: torch.Tensor  # float32 [N] or [N, R]; belongs to the action of the row before
    discount: torch.Tensor  # float32 [N]
    observation: Nest  # [N, ...]
    action: Nest  # [N, ...]

    @classmethod
    def of(cls, experience: Experience, column: int = 0) -> Tape:
        """One environment of `[T + 1, B]` time steps and `[T, B]` actions."""
        time_step = nest.map(lambda leaf: leaf[:, column], experience.time_step)
        # The last action is not known yet; the one before it is a valid one.
        action = nest.map(lambda leaf: torch.cat((leaf, leaf[-1:]))[:, column], experience.action)
        return cls(time_step.step_type, time_step.reward, time_step.discount, time_step.observation, action)

    def __len__(self) -> int:
        return len(self.step_type)

    @property
    def num_steps(self) -> int:
        """Actions that led somewhere."""
        return int((self.step_type[1:] != StepType.FIRST).sum())

    @property
    def num_episodes(self) -> int:
        """Whole ones and parts of ones."""
        return int((self.step_type[1:] == StepType.FIRST).sum()) + 1 if len(self) else 0

    @property
    def fingerprint(self) -> int:
        """A number that tells tapes apart."""
        return zlib.crc32(self.reward.numpy().tobytes(), zlib.crc32(self.step_type.numpy().tobytes()))

    def newest(self, length: int) -> Tape:
        """The last `length` rows."""
        tape: Tape = nest.index(self, slice(max(0, len(self) - length), None))
        return tape

    def experience(self) -> Experience:
        """All of it as one sequence of one environment: `[N, 1]` time steps, `[N - 1, 1]` actions."""

        def before(leaf: torch.Tensor) -> torch.Tensor:
            return torch.cat((torch.zeros_like(leaf[:1]), leaf[:-1]))

        time_step = TimeStep(
            step_type=self.step_type,
            reward=self.reward,
            discount=self.discount,
            observation=self.observation,
            prev_action=nest.zero_where(self.step_type == StepType.FIRST, nest.map(before, self.action)),
            env_id=torch.zeros(len(self), dtype=torch.int64),
        )
        columns = nest.map(lambda leaf: leaf.unsqueeze(1), (time_step, nest.index(self.action, slice(None, -1))))
        return Experience(*columns)


def join(tapes: Sequence[Tape]) -> Tape | None:
    """One tape after the other. An episode that is cut at a seam begins with FIRST and ends as at a time limit.

    None when there is not a single transition.
    """
    closed = [tape for tape in map(_closed, tapes) if len(tape) > 1]
    joined: Tape | None = nest.concat(closed) if closed else None
    return joined


def tapes_of_replay(state: dict[str, Any]) -> list[Tape]:
    """What a replay buffer held, of each environment one tape, oldest first.

    Args:
        state: what `ReplayBuffer.state_dict` gave.
    """
    counts = (state["newest"] - state["oldest"] + 1).tolist()
    buffer = ReplayBuffer(len(counts), max(counts, default=1), torch.Generator(), "cpu", prioritized=False)
    buffer.load_state_dict(state)
    filled = [env for env, count in enumerate(counts) if count > 1]
    return [Tape.of(buffer.get(torch.tensor([env]), buffer.oldest[[env]], counts[env])) for env in filled]


def newest_of(tapes: Sequence[Tape], length: int) -> list[Tape]:
    """Together at most the newest `length` rows: of each tape equally many."""
    share, rest = divmod(length, len(tapes)) if tapes else (0, 0)
    return [tape.newest(share + (index < rest)) for index, tape in enumerate(tapes)]


def _closed(tape: Tape) -> Tape:
    # An end without anything before it would be joined to the seam, and so would a beginning without anything after it.
    first = int(len(tape) > 0 and tape.step_type[0] == StepType.LAST)
    end = len(tape) - int(len(tape) > 0 and tape.step_type[-1] == StepType.FIRST)
    kept: Tape = nest.index(tape, slice(first, max(first, end)))
    step_type = kept.step_type.clone()
    step_type[-1:] = StepType.LAST
    step_type[:1] = StepType.FIRST
    return replace(kept, step_type=step_type)
