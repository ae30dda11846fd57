from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from gin.config import config_scope

from alfish import config
from alfish.config import carry
from alfish.environments.create import create_environment
from alfish.environments.loading import load_gymnasium
from alfish.environments.process import ProcessEnvironment
from alfish.environments.sync import SyncEnvironment
from alfish.environments.vector import VectorEnvironment
from alfish.environments.wrappers import MaskVelocity
from alfish.errors import ConfigError, EnvironmentFault
from tests.environments.scripted import ScriptedEnv, load_scripted


def test_defaults() -> None:
    with create_environment() as env:
        assert isinstance(env, SyncEnvironment)
        assert (env.name, env.batch_size, env.exact_resume) == ("CartPole-v1", 1, True)
        assert env.observation_spec.shape == (4,)
        assert env.action_spec.num_values == 2
        assert env.reward_spec.shape == ()
        assert env.env_info_spec == ()


def test_minus_one_is_the_number_of_cpus() -> None:
    assert create_environment(num_parallel_environments=-1).batch_size == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("number", [0, -2])
def test_other_numbers_are_refused(number: int) -> None:
    with pytest.raises(ConfigError, match=f"num_parallel_environments={number}: must be at least 1"):
        create_environment(num_parallel_environments=number)


def test_fastest_prefers_the_native_form_where_it_pays() -> None:
    many = create_environment("CartPole-v1", num_parallel_environments=64, backend="fastest")
    assert isinstance(many, VectorEnvironment)
    assert re.fullmatch(r"vector \(a step of 64 x CartPole-v1: sync [\d,]+ us, vector [\d,]+ us.*\)", many.remark)
    # A wrapper needs single environments, and so does a restart; one environment is nothing to be batched.
    for options in ({"wrappers": [MaskVelocity]}, {"on_env_error": "restart"}, {"num_parallel_environments": 1}):
        env = create_environment("CartPole-v1", **{"num_parallel_environments": 64, "backend": "fastest", **options})
        assert isinstance(env, SyncEnvironment)
    assert isinstance(create_environment("alfish/ValueUnittest-v0", backend="fastest"), SyncEnvironment)


def test_auto_is_sync_for_cheap_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alfish.environments.create.usable_cores", lambda: 2)
    env = create_environment("CartPole-v1", num_parallel_environments=8)
    assert isinstance(env, SyncEnvironment)
    assert re.fullmatch(r"sync \(CartPole-v1: \d+ us per step; processes would pay from about 500 us\)", env.remark)
    assert create_environment("CartPole-v1").remark == ""
    assert create_environment("CartPole-v1", num_parallel_environments=8, backend="sync").remark == ""


def load_slow(env_name: str) -> gym.Env[Any, Any]:
    class Slow(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            time.sleep(0.003)
            return super().step(action)

    return Slow(load_gymnasium("CartPole-v1"))


def test_auto_is_process_for_slow_environments_with_the_same_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alfish.environments.create.usable_cores", lambda: 2)
    with (
        create_environment("slow", load_slow, 2) as env,
        create_environment("CartPole-v1", num_parallel_environments=2, backend="sync") as same,
    ):
        assert isinstance(env, ProcessEnvironment)
        assert env.remark.startswith("process (slow: ")
        assert torch.equal(env.reset(seed=7).observation, same.reset(seed=7).observation)
        for _ in range(30):
            action = torch.tensor([1, 0])
            here, there = env.step(action), same.step(action)
            assert torch.equal(here.observation, there.observation)
            assert torch.equal(here.step_type, there.step_type)


def test_auto_does_without_processes_that_do_not_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("alfish.environments.create.usable_cores", lambda: 2)
    monkeypatch.setattr("alfish.environments.create.ProcessEnvironment", no_processes)
    assert isinstance(create_environment("slow", load_slow, 2), SyncEnvironment)
    assert caplog.messages == ["no\n  Environments run in this process instead, one after the other: backend 'sync'"]
    with pytest.raises(EnvironmentFault, match="no"):
        create_environment("slow", load_slow, 2, "process")


def no_processes(*_: Any) -> Any:
    raise EnvironmentFault("no")


def test_what_must_not_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alfish.environments.create.choose", lambda *_: pytest.fail("measured"))
    # It would open a window.
    create_environment("CartPole-v1", num_parallel_environments=2, render_mode="human").close()
    # Whether it is refused shall not depend on the speed.
    with pytest.raises(ConfigError, match=r"spare_environments=1 needs backend 'process', not 'sync'"):
        create_environment("CartPole-v1", num_parallel_environments=2, spare_environments=1)


def test_a_backend_that_does_not_exist_for_an_environment() -> None:
    with pytest.raises(ConfigError, match=r"Pendulum-v1 has no such form\. It can run with 'sync', 'process'"):
        create_environment("Pendulum-v1", backend="vector")
    with pytest.raises(ConfigError, match="without env_load_fn and wrappers"):
        create_environment("CartPole-v1", backend="vector", wrappers=[MaskVelocity])


def test_what_only_some_backends_can_do() -> None:
    with pytest.raises(ConfigError, match=r"spare_environments=2 needs backend 'process', not 'sync'"):
        create_environment("CartPole-v1", spare_environments=2)
    with pytest.raises(ConfigError, match=r"on_env_error='restart' needs backend 'sync' or 'process'.* 'vector'"):
        create_environment("CartPole-v1", backend="vector", on_env_error="restart")


def test_options_that_are_idle_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    create_environment("CartPole-v1", env_step_timeout=60.0, max_env_restarts=3)
    assert caplog.messages == []
    create_environment("CartPole-v1", env_step_timeout=5.0, max_env_restarts=5)
    assert caplog.messages == [
        "create_environment.env_step_timeout: no effect, since backend is 'sync', not 'process'",
        "create_environment.max_env_restarts: no effect, since on_env_error is 'stop'",
    ]


def test_options_reach_the_loader_only_when_set() -> None:
    def load(env_name: str, max_episode_steps: int = 3) -> gym.Env[Any, Any]:
        return gym.wrappers.TimeLimit(ScriptedEnv([(False, False)] * 9), max_episode_steps)

    def length(**options: Any) -> int:
        env = create_environment("any", load, **options)
        env.reset(seed=0)
        return next(k for k in range(1, 9) if env.step(torch.tensor([0])).is_last())

    assert length() == 3
    assert length(max_episode_steps=5) == 5
    with pytest.raises(ConfigError, match=r"create_environment.render_mode is set, but env_load_fn load has no arg"):
        length(render_mode="human")


def test_what_is_no_environment() -> None:
    with pytest.raises(ConfigError, match=r"env_load_fn returned a int, not a gymnasium\.Env"):
        create_environment("any", lambda env_name: 3)  # type: ignore[arg-type,return-value]

    def broken(env: Any) -> Any:
        return None

    with pytest.raises(ConfigError, match="wrappers: broken returned a NoneType"):
        create_environment(wrappers=[broken])


CONFIG = """
import tests.environments.scripted
create_environment.env_name = "any"
create_environment.env_load_fn = @load_scripted
create_environment.num_parallel_environments = 2
create_environment.info_keys = ["has_torch"]
create_environment.wrappers = [@TimeLimit, @short/TimeLimit]
load_scripted.bonus = 0.5
play/load_scripted.bonus = 100.0
TimeLimit.max_episode_steps = 4
short/TimeLimit.max_episode_steps = 3
FrameSkip.skip = 2
"""


@pytest.mark.parametrize("backend", ["sync", "process"])
def test_from_gin(backend: str, tmp_path: Path) -> None:
    (tmp_path / "toy.gin").write_text(CONFIG)
    with config.isolated():
        config.load([str(tmp_path / "toy.gin")], [f"create_environment.backend='{backend}'"])
        with create_environment() as env:
            env.reset(seed=0)
            steps = [env.step(torch.tensor([0, 0])) for _ in range(4)]
            assert [step.reward.tolist() for step in steps] == [[1.5, 1.5], [2.5, 2.5], [3.5, 3.5], [0, 0]]
            assert [step.step_type.tolist() for step in steps] == [[1, 1], [1, 1], [2, 2], [0, 0]]
            # Starting a worker takes a tenth of a second without torch, and seconds with it.
            assert steps[0].env_info["has_torch"].tolist() == [float(backend == "sync")] * 2
        used = {(scope, name.rpartition(".")[2], argument) for scope, name, argument in config.operative_keys()}
        assert ("", "load_scripted", "bonus") in used
        assert ("short", "TimeLimit", "max_episode_steps") in used
        assert ("", "TimeLimit", "max_episode_steps") in used
        assert ("", "FrameSkip", "skip") not in used
        # The scope of the call holds for what is called in the worker.
        with config_scope("play"), create_environment() as env:
            env.reset(seed=0)
            assert env.step(torch.tensor([0, 0])).reward.tolist() == [101, 101]


def test_what_only_workers_use_is_reported_as_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.gin").write_text(CONFIG)
    with config.isolated():
        config.load([str(tmp_path / "toy.gin")], ["create_environment.backend='process'"])
        merged: list[Any] = []
        monkeypatch.setattr(carry, "merge_operative", merged.append)
        create_environment().close()
        assert len(merged) == 2
        for keys in merged:
            names = {name.rpartition(".")[2] for _, name, _ in keys}
            assert {"load_scripted", "TimeLimit"} <= names
            assert "FrameSkip" not in names


def test_load_scripted_is_plain_outside_gin() -> None:
    assert load_scripted("any").reset(seed=0)[0].tolist() == [0, 0]
