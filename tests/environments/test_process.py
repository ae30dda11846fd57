from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

from alfish import nest, specs
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.environments.process import ProcessEnvironment
from alfish.errors import EnvironmentFault
from alfish.types import TimeStep
from tests.environments.scripted import load_broken, load_noisy
from tests.faults.fault_env import load_fault_env


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


@pytest.mark.parametrize(("name", "num_spares"), [("scalar", 0), ("vector", 0), ("scalar", 1), ("scalar", 3)])
def test_processes_give_the_bits_of_the_loop(name: str, num_spares: int) -> None:
    def make(backend: Any, num_spares: int = 0) -> Environment:
        return create_environment(name, load_noisy, 3, backend, info_keys=("luck",), spare_environments=num_spares)

    with make("sync") as sync, make("process", num_spares) as process:
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
    assert "in step 3 of episode 0, action 2" in message
    assert 'raise LocalTrouble("the wheel", "came off")' in message


def test_a_process_that_dies_is_named() -> None:
    message = fail("die")
    assert message.startswith("die: environment 1 (process ")
    assert "left with exit code 7\n  in step 3 of episode 0, action 2" in message


def test_a_killed_process_is_noticed_within_a_second() -> None:
    with create_environment("scalar", load_noisy, 2, "process") as env:
        env.reset(seed=0)
        assert isinstance(env, ProcessEnvironment)
        os.kill(env._workers[1]._child.pid, 9)
        began = time.monotonic()
        with pytest.raises(EnvironmentFault, match=r"environment 1 \(process \d+\) was killed by signal 9 \(SIGKILL\)"):
            stream_on(env, 1)
        assert time.monotonic() - began < 1


def test_an_environment_that_hangs_is_given_up_and_shows_where() -> None:
    message = fail("hang", env_step_timeout=0.5)
    assert "hang: environment 1 did not answer within 0.5 s\n  in step 3 of episode 0, action 2" in message
    assert "env_step_timeout (now 0.5 s" in message
    assert "scripted.py" in message
    assert "in step" in message


def stream_on(env: Environment, length: int) -> list[TimeStep]:
    return [env.step(specs.zeros(env.action_spec, env.batch_size)) for _ in range(length)]


def faulty(tmp_path: Path, mode: str, step: int = 5, times: int = 1, **options: Any) -> Environment:
    load = partial(load_fault_env, mode=mode, step=step, times=times, folder=str(tmp_path))
    return create_environment("fault", load, 2, on_env_error="restart", **options)


@pytest.mark.parametrize(("backend", "mode"), [("process", "kill"), ("process", "nan"), ("sync", "raise")])
def test_a_restart_ends_the_episode_as_a_time_limit_and_goes_on_with_the_next(
    tmp_path: Path, backend: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.faults.fault_env._constructed", iter(range(100)))
    with faulty(tmp_path, mode, backend=backend) as env, faulty(tmp_path, "", backend="sync") as sound:
        steps = [env.reset(seed=1), *stream_on(env, 8)]
        expected = [sound.reset(seed=1), *stream_on(sound, 8)]
        assert env.num_restarts == 1
        # The other environment knows nothing of it.
        for path in ("observation", "reward", "step_type", "discount"):
            assert all(
                torch.equal(getattr(a, path)[0], getattr(b, path)[0]) for a, b in zip(steps, expected, strict=True)
            )
        assert [int(step.step_type[1]) for step in steps] == [0, 1, 1, 1, 1, 2, 0, 1, 1]
        assert [float(step.discount[1]) for step in steps] == [1] * 9
        assert [float(step.reward[1]) for step in steps] == [0, 1, 1, 1, 1, 0, 0, 1, 1]
        assert torch.equal(steps[5].observation[1], steps[4].observation[1])
        # Episode 1, as if episode 0 had ended in any other way.
        sound.reset(seed=1)
        assert torch.equal(steps[6].observation[1], sound.reset().observation[1])


@pytest.mark.parametrize("backend", ["process", "sync"])
def test_a_reset_that_fails_is_repeated_with_the_next_episode(
    tmp_path: Path, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The rebuilt environment of the loop is the chosen one again.
    monkeypatch.setattr("tests.faults.fault_env._constructed", iter([0, 1, 1, 0, 1]))
    with faulty(tmp_path, "nan", step=0, times=2, backend=backend) as env:
        if backend == "process":
            monkeypatch.setattr("tests.faults.fault_env._constructed", iter([0, 1]))
        first = env.reset(seed=1)
        assert env.num_restarts == 2
        assert torch.isfinite(first.observation).all()
        assert stream_on(env, 1)[0].step_type.tolist() == [1, 1]


def test_there_is_a_limit_to_restarts(tmp_path: Path) -> None:
    before = multiprocessing.active_children()
    with faulty(tmp_path, "exit", step=2, times=3, backend="process", max_env_restarts=2) as env:
        env.reset(seed=0)
        with pytest.raises(EnvironmentFault, match=r"(?s)exit code 7.* restarted 2 times already"):
            stream_on(env, 30)
        assert env.num_restarts == 2
        assert multiprocessing.active_children() == before


def test_an_episode_goes_on_in_the_process_that_was_prepared_for_it() -> None:
    with create_environment("fault", load_fault_env, 1, "process", spare_environments=1) as env:
        env.reset(seed=0)
        assert isinstance(env, ProcessEnvironment)
        before, spare = env._workers[0], env._prepared[0]
        assert [int(step.step_type) for step in stream_on(env, 21)] == [1] * 19 + [2, 0]
        # They have changed places, and the next episode is prepared.
        assert (env._workers[0], env._prepared[0]) == (spare, before)


def test_a_spare_that_dies_is_replaced() -> None:
    with create_environment(
        "scalar", load_noisy, 2, "process", spare_environments=2, on_env_error="restart", max_env_restarts=5
    ) as env:
        env.reset(seed=0)
        assert isinstance(env, ProcessEnvironment)
        for spare in env._prepared.values():
            os.kill(spare._child.pid, 9)
        steps = stream_on(env, 60)
        assert env.num_restarts == 2
        assert sum(int(step.is_last().sum()) for step in steps) > 5
        env.reset(seed=1)


def test_closing_twice_is_fine() -> None:
    env = create_environment("scalar", load_noisy, 2, "process", spare_environments=1)
    assert isinstance(env, ProcessEnvironment)
    env.reset(seed=0)
    children = [worker._child for worker in env._processes()]
    assert [child.is_alive for child in children] == [True] * 3
    env.close()
    env.close()
    assert [child.is_alive for child in children] == [False] * 3
