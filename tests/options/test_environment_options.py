"""The options of `create_environment`."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import alfish
from alfish.environments.sync import SyncEnvironment
from alfish.environments.vector import VectorEnvironment
from alfish.errors import EnvironmentFault
from tests.faults import fault_env
from tests.options.envs import diary
from tests.options.running import CARTPOLE, DQN, ENDLESS, PPO, Run, load, refusal, train

PARTS = "import tests.options.envs\n"
DIARY = f'{PARTS}create_environment.env_name = "tests/Diary-v0"\ncreate_environment.num_parallel_environments = 2\n'
# Every return is 3.
THREE = 'create_environment.env_name = "alfish/ConstantRewardProbe-v0"\nConstantRewardProbe.episode_length = 3\n'
FAULT = """
import tests.faults.fault_env
create_environment.env_name = "fault"
create_environment.env_load_fn = @load_fault_env
create_environment.num_parallel_environments = 2
load_fault_env.folder = "faults"
"""


def bound(**options: Any) -> list[str]:
    """Options of `create_environment`, as on the command line."""
    return [f"create_environment.{name}={value!r}" for name, value in options.items()]


def fault(mode: str, times: int = 1, **options: Any) -> Run:
    """A run in which the second environment breaks in this way, in the third step of its episodes, so many times."""
    Path("faults").mkdir()
    where = ["load_fault_env.step=3", f"load_fault_env.mode={mode!r}", f"load_fault_env.times={times}"]
    return train(PPO, FAULT, *where, *bound(**{"backend": "process", **options}))


def processes() -> set[int]:
    return {pid for pid, *_ in diary()}


def test_env_name() -> None:
    run = train(PPO, "", *bound(env_name="CartPole-v1"))
    assert run.trainer.algorithm.observation_spec.shape == (4,)
    assert "on 4 x CartPole-v1" in run.console
    assert "CartPole-v1" in refusal(PPO, "", *bound(env_name="CartPol-v1")), "the nearest one"


def test_env_load_fn() -> None:
    text = f"{PARTS}{THREE}create_environment.env_load_fn = @load_with_bonus\nload_with_bonus.bonus = 10.0\n"
    assert train(PPO, text).result.mean_return == 3 * 11


def test_num_parallel_environments() -> None:
    run = train(PPO, ENDLESS, *bound(num_parallel_environments=3))
    assert run.per_iteration("env_steps") == [15] * 4


def test_num_parallel_environments_minus_one_is_the_number_of_cpus() -> None:
    run = train(PPO, ENDLESS, *bound(num_parallel_environments=-1))
    cpus = len(os.sched_getaffinity(0))
    assert run.per_iteration("env_steps") == [5 * cpus] * 4
    assert json.loads(Path("run/run.json").read_text())["num_environments"] == cpus, "the number is kept"
    assert "must be at least 1, or -1" in refusal(PPO, "", *bound(num_parallel_environments=0), root_dir="no")


def test_backend_sync_and_auto_run_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alfish.environments.create.usable_cores", lambda: 2)
    auto = train(PPO, DIARY, *bound(backend="auto"), num_iterations=1)
    sync = train(PPO, DIARY, *bound(backend="sync"), num_iterations=1, root_dir="sync")
    assert processes() == {os.getpid()}
    assert "\nbackend: sync (tests/Diary-v0: " in auto.console
    assert "processes would pay from about" in auto.console
    assert "backend:" not in sync.console


def test_backend_process_gives_each_environment_its_own() -> None:
    train(PPO, DIARY, *bound(backend="process"), num_iterations=1)
    assert len(processes()) == 2
    assert os.getpid() not in processes()


def test_backend_fastest_is_measured() -> None:
    load(PPO, CARTPOLE, *bound(backend="fastest", num_parallel_environments=64))
    with alfish.create_environment() as many, alfish.create_environment(num_parallel_environments=1) as one:
        assert isinstance(many, VectorEnvironment)
        assert isinstance(one, SyncEnvironment)


def test_backend_vector_takes_the_native_form() -> None:
    load(PPO, CARTPOLE, *bound(backend="vector"))
    with alfish.create_environment() as env:
        assert isinstance(env, VectorEnvironment)
    assert "has no such form" in refusal(PPO, "", *bound(backend="vector"))


def test_wrappers_in_order_the_last_one_outermost() -> None:
    text = f"{PARTS}{THREE}create_environment.wrappers = [@double_reward, @add_one]\n"
    assert train(PPO, text).result.mean_return == 3 * (2 * 1 + 1)


def test_env_kwargs() -> None:
    text = 'create_environment.env_name = "alfish/ConstantRewardProbe-v0"\n'
    assert train(PPO, text, *bound(env_kwargs={"reward": 2.5, "episode_length": 2})).result.mean_return == 5.0


def test_max_episode_steps_is_a_time_limit() -> None:
    run = train(DQN, ENDLESS, *bound(max_episode_steps=2))
    assert run.result.mean_return == 2.0
    stored = run.trainer.algorithm.replay.gather_all().time_step
    assert (stored.discount[stored.is_last()] == 1).all(), "learners bootstrap"


def test_render_mode() -> None:
    load(PPO, CARTPOLE, *bound(render_mode="rgb_array"))
    with alfish.create_environment() as env:
        env.reset(seed=0)
        assert env.render().shape[-1] == 3
    load(PPO, CARTPOLE)
    with alfish.create_environment() as env:
        env.reset(seed=0)
        assert env.render() is None


def test_info_keys() -> None:
    run = train(DQN, DIARY, *bound(info_keys=["elapsed"]), num_iterations=1)
    stored = run.trainer.algorithm.replay.gather_all().time_step
    assert stored.env_info["elapsed"][1:, 0].tolist() == [1, 2, 3, 4, 5]
    assert stored.env_info["elapsed"][0, 0].isnan(), "the reset has none"


@pytest.mark.parametrize("clips", [True, False])
def test_clip_actions(clips: bool) -> None:
    # The reward is the action that the environment got; its bounds are 0.01, the policy's spread is larger.
    text = f'{PARTS}create_environment.env_name = "tests/WideAction-v0"\n'
    received: list[torch.Tensor] = []
    train(
        PPO,
        text,
        *bound(clip_actions=clips),
        each=lambda trainer: received.append(trainer.algorithm.time_step.reward),
        unroll_length=1,
        num_iterations=20,
    )
    assert (torch.cat(received).abs().max() <= 0.0101) == clips


def test_env_step_timeout() -> None:
    with pytest.raises(EnvironmentFault, match=r"environment 1 .*within 0\.5 s"):
        fault("hang", env_step_timeout=0.5)


def test_env_step_timeout_is_idle_in_this_process_and_that_is_said() -> None:
    run = train(PPO, "", *bound(env_step_timeout=5.0))
    assert "create_environment.env_step_timeout: no effect, since backend is 'sync', not 'process'" in run.console


def test_on_env_error_stop() -> None:
    with pytest.raises(EnvironmentFault, match="environment 1 raised ValueError: the wheel came off") as caught:
        fault("raise", on_env_error="stop")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(("mode", "backend"), [("raise", "sync"), ("kill", "process")])
def test_on_env_error_restart(mode: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_env, "_constructed", itertools.count())
    run = fault(mode, backend=backend, on_env_error="restart")
    assert (run.result.iterations, run.result.env_restarts) == (4, 1)


def test_max_env_restarts() -> None:
    assert fault("raise", times=2, on_env_error="restart", max_env_restarts=2).result.env_restarts == 2


def test_max_env_restarts_then_the_fault_ends_the_run() -> None:
    with pytest.raises(EnvironmentFault, match="the wheel came off"):
        fault("raise", times=3, on_env_error="restart", max_env_restarts=2)


def test_max_env_restarts_is_idle_without_restarts_and_that_is_said() -> None:
    run = train(PPO, "", *bound(max_env_restarts=5))
    assert "create_environment.max_env_restarts: no effect, since on_env_error is 'stop'" in run.console


def test_spare_environments() -> None:
    short = f"{DIARY}DiaryEnv.episode_length = 4\n"
    without, with_spares = (
        train(PPO, short, *bound(backend="process", spare_environments=number), root_dir=f"{number}")
        for number in (0, 1)
    )
    assert len(processes()) == 2 + 3, "two environments, then two and a spare"
    assert torch.equal(with_spares.weights, without.weights), "episodes stay the same"
    assert "needs backend 'process'" in refusal(PPO, short, *bound(spare_environments=1), root_dir="no")
