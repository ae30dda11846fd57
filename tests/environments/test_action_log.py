"""The log knows the actions of every episode under way, and of no other."""

from __future__ import annotations

import numpy as np
import torch

from alfish.environments.action_log import ActionLog


def step(log: ActionLog, number: int, first: list[int] | None = None) -> None:
    """Row `i` does `10 * number + i`."""
    log.add([np.array([10 * number, 10 * number + 1])], first or [])


def actions(log: ActionLog, row: int) -> list[int]:
    return [int(leaf[0]) for leaf in log.of(row)]


def test_each_row_has_the_actions_since_its_episode_began() -> None:
    log = ActionLog(2)
    log.begin(slice(None))
    step(log, 1)
    step(log, 2, first=[1])  # this action of row 1 is ignored: its episode begins
    step(log, 3)
    assert actions(log, 0) == [10, 20, 30]
    assert actions(log, 1) == [31]
    assert log.lengths() == [3, 1]


def test_what_no_episode_needs_is_forgotten() -> None:
    log = ActionLog(2)
    for number in range(5):
        step(log, number)
    step(log, 5, first=[0, 1])
    assert log.lengths() == [0, 0]
    assert log.state_dict()["actions"] == []


def test_episodes_that_are_too_long_are_known_as_such() -> None:
    log = ActionLog(2, most_steps=3)
    for number in range(4):
        step(log, number, first=[1] if number == 2 else None)
    assert log.lengths() == [-1, 1]
    assert log.of(0) == []
    assert actions(log, 1) == [31]


def test_it_goes_on_after_being_saved() -> None:
    log, other = ActionLog(2, most_steps=3), ActionLog(2, most_steps=3)
    for number in range(5):
        step(log, number, first=[1] if number == 3 else None)
    state = log.state_dict()
    assert all(isinstance(leaf, torch.Tensor) for leaf in state["actions"])
    other.load_state_dict(state)
    for each in (log, other):
        step(each, 5)
        assert each.lengths() == [-1, 2]
        assert actions(each, 1) == [41, 51]
