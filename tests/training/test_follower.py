"""Ranks above 0 start where rank 0 is, with random streams and episodes of their own. See also test_distributed."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

from alfish.collective import Collective
from alfish.training.follower import share_start
from alfish.training.trainer import Trainer
from tests.training import tiny


class Mailbox(Collective):
    """Rank 0 speaks first, then rank 1 hears it."""

    size = 2

    def __init__(self) -> None:
        self._letter = b""

    def from_first(self, value: Any) -> Any:
        if self.rank == 0:
            self._letter = pickle.dumps(value)
        return pickle.loads(self._letter)  # noqa: S301


def share(first: Trainer, second: Trainer) -> None:
    box = Mailbox()
    for box.rank, trainer in enumerate((first, second)):
        algorithm = trainer.algorithm
        share_start(box, algorithm, algorithm.loop.updater.ownership, trainer.progress)


@pytest.mark.parametrize("iterations", [0, 2])
def test_the_others_start_where_rank_0_is_with_streams_of_their_own(iterations: int) -> None:
    tiny.bind()
    first, second = tiny.make("one"), tiny.make("two", random_seed=2)
    for _ in range(iterations):
        first.algorithm.train_iter()
    own = second.algorithm.run_state()
    assert not torch.equal(tiny.weights(first), tiny.weights(second))
    share(first, second)

    assert torch.equal(tiny.weights(first), tiny.weights(second))
    assert vars(first.progress) == vars(second.progress)
    here, there = (each.algorithm.loop.updater.ownership.optimizers for each in (first, second))
    for name, optimizer in here.items():
        state, copied = optimizer.state_dict(), there[name].state_dict()
        assert state.keys() == copied.keys()
        assert bool(state) == bool(iterations)
        for parameter, moments in state.items():
            assert all(torch.equal(value, copied[parameter][key]) for key, value in moments.items())
    now = second.algorithm.run_state()
    assert torch.equal(now["loop"]["shuffle"], own["loop"]["shuffle"])
    assert all(map(torch.equal, now["generators"], own["generators"]))
    assert second.algorithm.metrics.env_steps == 0
    assert second.algorithm.time_step.is_first().all()
    second.algorithm.train_iter()
    assert second.progress.env_steps == first.progress.env_steps + second.algorithm.metrics.env_steps
    for each in (first, second):
        each.close()
