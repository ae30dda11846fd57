from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
import torch

from alfish import nest, specs
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.errors import EnvironmentFault
from alfish.types import TimeStep
from tests.environments.scripted import load_broken, load_noisy


def stream(env: Environment, length: int, seed: int = 3) -> list[TimeStep]:
    generator = torch.Generator().manual_seed(0)
    steps = [env.reset(seed=seed)]
    for _ in range(length):
        steps.append(env.step(specs.sample(env.action_spec, env.batch_size, generator=generator)))
    return steps


def assert_equal(left: list[TimeStep], right: list[TimeStep]) -> None:
    for a, b in zip(left, right, strict=True):
        for (path, x), (_, y) in zip(nest.named_leaves(a).items(), nest.named_leaves(b).items(), strict=True):
            assert x.dtype == y.dtype, path
            torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True, msg=path)


@pytest.mark.parametrize("name", ["scalar", "vector"])
def test_processes_give_the_bits_of_the_loop(name: str) -> None:
    def make(backend: Any) -> Environment:
        return create_environment(name, load_noisy, 3, backend, info_keys=("luck",))

    with make("sync") as sync, make("process") as process:
        assert process.exact_resume
        assert process.reward_spec == sync.reward_spec
        assert process.observation_spec == sync.observation_spec
        expected = stream(sync, 60)
        assert sum(int(step.is_last().sum()) for step in expected) > 10
        assert_equal(stream(process, 60), expected)
        assert_equal(stream(process, 60), expected)
        assert not torch.equal(process.reset(seed=4).observation["place"], expected[0].observation["place"])
        # Without a seed the next episode begins.
        for env in (sync, process):
            env.reset(seed=9)
        assert_equal([sync.reset()], [process.reset()])


def test_wrappers_and_pictures_in_processes() -> None:
    wrapper: Callable[..., gym.Env[Any, Any]] = lambda env: gym.wrappers.TimeLimit(env, 2)  # noqa: E731
    with create_environment("CartPole-v1", backend="process", wrappers=[wrapper], render_mode="rgb_array") as env:
        steps = stream(env, 3)
        assert [int(step.step_type) for step in steps] == [0, 1, 2, 0]
        assert [float(step.discount) for step in steps] == [1, 1, 1, 1]
        frame = env.render()
        assert frame is not None
        assert frame.shape == (400, 600, 3)


def fail(how: str, **options: Any) -> str:
    before = multiprocessing.active_children()
    env = create_environment(how, load_broken, 2, "process", **options)
    env.reset(seed=0)
    for _ in range(2):
        env.step(torch.tensor([1, 2]))
    with pytest.raises(EnvironmentFault) as caught:
        env.step(torch.tensor([1, 2]))
    env.close()
    assert multiprocessing.active_children() == before
    return str(caught.value)


def test_an_exception_that_no_pickle_survives_comes_home_as_text() -> None:
    message = fail("raise")
    assert "environment 1 raised LocalTrouble: ('the wheel', 'came off')" in message
    assert "in step 3 of episode 0, action 2, at " in message


def test_a_process_that_dies_is_named() -> None:
    assert "die: the process of environment 1 died in a step: left with exit code 7" in fail("die")


def test_an_environment_that_hangs_is_given_up() -> None:
    message = fail("hang", env_step_timeout=0.5)
    assert "hang: environment 1 did not answer a step within its time limit" in message
    assert "env_step_timeout (now 0.5 s)" in message
