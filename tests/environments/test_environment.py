from __future__ import annotations

import torch

from alfish import specs
from alfish.environments.environment import Environment
from alfish.types import Nest, TimeStep


class Counter(Environment):
    """The least that an environment of one's own needs."""

    def __init__(self) -> None:
        self.name = "counter"
        self.batch_size = 1
        self.observation_spec = specs.TensorSpec(())
        self.action_spec = ()
        self.reward_spec = specs.TensorSpec(())
        self.env_info_spec = ()
        self.closed = 0

    def reset(self, seed: int | None = None) -> TimeStep:
        zero, one = torch.zeros(1), torch.ones(1)
        return TimeStep(torch.zeros(1, dtype=torch.int32), zero, one, zero, (), torch.zeros(1, dtype=torch.int64))

    def step(self, action: Nest) -> TimeStep:
        return self.reset()

    def close(self) -> None:
        self.closed += 1


def test_leaving_the_block_closes() -> None:
    env = Counter()
    with env as inside:
        assert inside is env
        assert env.closed == 0
    assert env.closed == 1


def test_a_user_need_not_render_nor_promise_exact_resume() -> None:
    env = Counter()
    assert env.render() is None
    assert not env.exact_resume
