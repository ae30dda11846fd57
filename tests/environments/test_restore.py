"""Environments come back to where they were, by playing their episodes again."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from alfish import nest, specs
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.types import TimeStep
from tests.environments.forgetful import Forgetful

BACKENDS = ["sync", "process"]
CASES = {
    "CartPole-v1": {},
    "Pendulum-v1": {"max_episode_steps": 7},
    "alfish/MixedPolicyUnittest-v0": {},
}


def advance(env: Environment, steps: int, generator: torch.Generator) -> list[TimeStep]:
    return [env.step(specs.sample(env.action_spec, env.batch_size, generator=generator)) for _ in range(steps)]


def assert_equal(one: TimeStep, other: TimeStep) -> None:
    for name, leaf in nest.named_leaves(one).items():
        torch.testing.assert_close(leaf, nest.named_leaves(other)[name], rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("spares", [0, 2])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_the_stream_goes_on_as_if_nothing_had_happened(name: str, backend: str, spares: int) -> None:
    if spares and (backend == "sync" or name != "CartPole-v1"):
        pytest.skip("spares are for processes")
    options: dict[str, Any] = {**CASES[name], "num_parallel_environments": 3, "backend": backend}
    make = partial(create_environment, name, **options, spare_environments=spares)
    generator = torch.Generator().manual_seed(3)
    with make() as env, make() as other:
        env.reset(seed=5)
        for steps in (0, 1, 26, 40):
            last = [env.reset()] if steps == 0 else advance(env, steps, generator)
            drawn, state = generator.get_state(), env.state_dict()
            assert other.restore(state, last[-1]) == []
            expected = advance(env, 60, generator)
            generator.set_state(drawn)
            for one, two in zip(expected, advance(other, 60, generator), strict=True):
                assert_equal(one, two)


@pytest.mark.parametrize(("before", "after"), [("sync", "process"), ("process", "sync")])
def test_either_backend_goes_on_with_the_episodes_of_the_other(before: str, after: str) -> None:
    """So 'auto' may choose anew whenever a run goes on."""
    generator = torch.Generator().manual_seed(3)
    env, other = (
        create_environment("CartPole-v1", num_parallel_environments=3, backend=backend)  # type: ignore[arg-type]
        for backend in (before, after)
    )
    with env, other:
        env.reset(seed=5)
        last = advance(env, 33, generator)[-1]
        drawn = generator.get_state()
        assert other.restore(env.state_dict(), last) == []
        expected = advance(env, 60, generator)
        generator.set_state(drawn)
        for one, two in zip(expected, advance(other, 60, generator), strict=True):
            assert_equal(one, two)


@pytest.mark.parametrize("backend", BACKENDS)
def test_episodes_that_come_out_otherwise_are_cut_off(backend: str) -> None:
    make = partial(
        create_environment, "CartPole-v1", num_parallel_environments=3, backend=backend, wrappers=[Forgetful]
    )
    generator = torch.Generator().manual_seed(3)
    with make() as env, make() as other:
        env.reset(seed=5)
        last = advance(env, 5, generator)[-1]
        assert not last.is_last().any()
        assert other.restore(env.state_dict(), last) == [0, 1, 2]
        assert other.step(last.prev_action).is_first().all()
