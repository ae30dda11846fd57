"""What the options of a run promise, apart from learning: precision, device, threads, profile, snapshots."""

from __future__ import annotations

import json
import os
import pstats
from pathlib import Path
from typing import Any

import pytest
import torch

from alfish import config as gin_config
from alfish.train import main
from tests.options.running import A2C, DQN, EVALUATE, PPO, events, refusal, train
from tests.training.test_exact_resume import assert_same, state_of

CONTINUOUS = """
PolicyUnittestEnv.action_type = "continuous"
TrainerConfig.whole_replay_buffer_training = False
TrainerConfig.clear_replay_buffer = False
TrainerConfig.mini_batch_size = 8
TrainerConfig.num_updates_per_train_iter = 4
SacAlgorithm.actor_network_ctor = @ActorDistributionNetwork
SarsaAlgorithm.actor_network_ctor = @ActorDistributionNetwork
ActorDistributionNetwork.continuous_projection_net_ctor = @StableNormalProjectionNetwork
ActorNetwork.fc_layer_params = (4,)
SacAlgorithm.critic_network_ctor = @CriticNetwork
CriticNetwork.joint_fc_layer_params = (4,)
"""
LSTM = """
PPOAlgorithm.actor_network_ctor = @ActorDistributionRnnNetwork
PPOAlgorithm.value_network_ctor = @ValueRnnNetwork
ActorDistributionRnnNetwork.lstm_hidden_size = 4
ValueRnnNetwork.lstm_hidden_size = 4
"""


def critic_run(name: str) -> tuple[str, str]:
    return PPO, f"{CONTINUOUS}\nTrainerConfig.algorithm_ctor = @{name}\n{name}.optimizer = @Adam()\n"


MIXED = {
    "ppo": (PPO, ""),
    "ppo_lstm": (PPO, LSTM),
    "a2c": (A2C, ""),
    "dqn": (DQN, ""),
    **{name: critic_run(name) for name in ("SacAlgorithm", "Td3Algorithm", "DdpgAlgorithm", "SarsaAlgorithm")},
}


def run_facts() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(Path("run/run.json").read_text())
    return facts


# enable_amp


@pytest.mark.parametrize("name", MIXED)
def test_enable_amp_trains_in_mixed_precision(name: str) -> None:
    preset, text = MIXED[name]
    mixed = train(preset, text, root_dir="mixed", enable_amp=True)
    exact = train(preset, text, root_dir="exact")
    assert mixed.result.updates == exact.result.updates > 0
    assert not torch.equal(mixed.weights, exact.weights)
    assert mixed.weights.isfinite().all()


@pytest.mark.parametrize("name", ["ppo_lstm", "SacAlgorithm"])
def test_enable_amp_resumes_to_the_bit(name: str) -> None:
    preset, text = MIXED[name]
    whole = train(preset, text, root_dir="whole", enable_amp=True, num_iterations=6)
    for iterations in (3, 6):
        stopped = train(preset, text, root_dir="stopped", enable_amp=True, num_iterations=iterations)
    assert_same(state_of(whole.trainer), state_of(stopped.trainer))


def test_enable_amp_saves_the_scale_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alfish.algorithms.precision._reduced_dtype", lambda device: torch.float16)

    def rescale(trainer: Any) -> None:
        trainer.algorithm.loop.updater._scaler.scale = 64.0

    scales: list[float] = []
    train(A2C, enable_amp=True, num_iterations=2, prepare=rescale)
    train(
        A2C,
        enable_amp=True,
        num_iterations=3,
        prepare=lambda trainer: scales.append(trainer.algorithm.loop.updater._scaler.scale),
    )
    assert scales == [64.0]


def test_enable_amp_beside_workers() -> None:
    """Workers act in mixed precision, evaluation plays in float32: as in this process, on the same weights."""
    options = {"enable_amp": True, "evaluate": True, "num_evals": 1, "num_eval_episodes": 4, "eval_timeout": 120}
    run = train(DQN, async_unroll=True, async_eval=True, **options)
    assert run.result.updates == 4
    assert run.result.evaluation is not None
    local = train(DQN, root_dir="local", async_eval=False, **options)
    worker = train(DQN, root_dir="worker", async_eval=True, **options)
    assert local.result.evaluation == worker.result.evaluation


# device


def test_device_that_is_not_there_is_refused() -> None:
    said = refusal(PPO, device="cuda:99")
    assert "TrainerConfig.device: 'cuda:99' cannot be used here" in said
    assert "Try 'cpu'" in said


# num_threads


def test_num_threads_is_what_torch_has_while_learning() -> None:
    seen: list[int] = []
    train(PPO, num_threads=2, num_iterations=2, each=lambda _: seen.append(torch.get_num_threads()))
    assert seen == [2, 2]
    assert run_facts()["torch_threads"] == 2


WIDE = "ActorDistributionNetwork.fc_layer_params = (512, 512)\nTrainerConfig.mini_batch_size = 'whole'\n"


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alfish.training.threads.available_cores", lambda: 3)


def test_num_threads_follows_the_size_of_the_networks(many_cores: None) -> None:
    assert (train(PPO, root_dir="small"), torch.get_num_threads())[1] == 1
    train(PPO, WIDE, unroll_length=32, num_iterations=1)
    assert torch.get_num_threads() == 3
    assert run_facts()["torch_threads"] == 3


def test_num_threads_stays_on_the_same_machine_and_is_told_on_another(many_cores: None) -> None:
    train(PPO, WIDE, unroll_length=32, num_iterations=1)
    Path("run/run.json").write_text(json.dumps(run_facts() | {"torch_threads": 2}))
    run = train(PPO, WIDE, unroll_length=32, num_iterations=2)
    assert torch.get_num_threads() == 2
    assert "torch thread(s) before" not in run.console
    Path("run/run.json").write_text(json.dumps(run_facts() | {"cores": 1000}))
    run = train(PPO, WIDE, unroll_length=32, num_iterations=3)
    assert "2 torch thread(s) before, 3 now: not to the bit" in run.console
    assert "TrainerConfig.num_threads=2 keeps them" in run.console


# profiling


def test_profiling_writes_where_the_time_went() -> None:
    train(PPO, profiling=True)
    text = Path("run/profile/profile.txt").read_text()
    assert text.startswith("4 iterations")
    assert "(train_iter)" in text
    calls = pstats.Stats("run/profile/profile.pstats").stats  # type: ignore[attr-defined]
    assert [number for (_, _, name), (number, *_) in calls.items() if name == "_train_iter"] == [4]


def test_profiling_writes_after_an_error_too() -> None:
    def fail(trainer: Any) -> None:
        if trainer.progress.iterations == 2:
            raise ValueError("the wheel came off")

    with pytest.raises(ValueError, match="wheel"):
        train(PPO, profiling=True, each=fail)
    assert "(train_iter)" in Path("run/profile/profile.txt").read_text()


def test_profiling_is_off_by_default() -> None:
    train(PPO)
    assert not Path("run/profile").exists()


# code_snapshots


def test_code_snapshots_are_kept_and_shown() -> None:
    Path("agent.py").write_text("x = 1\n")
    run = train(PPO, code_snapshots=["agent.py", "agnet.py"])
    assert Path("run/snapshots/agent.py").read_text() == "x = 1\n"
    (event,) = events("run/train").Tensors("code/agent.py")
    assert "x = 1" in event.tensor_proto.string_val[0].decode()
    assert "TrainerConfig.code_snapshots: no file 'agnet.py'" in run.console


# empty_cache


@pytest.mark.parametrize("empty_cache", [True, False])
def test_empty_cache_is_called_each_iteration(empty_cache: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    # The CPU has no such function; with one it stands for an accelerator.
    monkeypatch.setattr(torch.cpu, "empty_cache", lambda: calls.append(1), raising=False)
    train(PPO, num_iterations=3, empty_cache=empty_cache)
    assert len(calls) == (3 if empty_cache else 0)


def test_empty_cache_is_idle_on_the_cpu() -> None:
    assert "TrainerConfig.empty_cache: no effect, since device is 'cpu'" in train(PPO, empty_cache=True).console


# conf_file


def test_conf_file_is_filled_in_by_the_command() -> None:
    Path("mine.gin").write_text(PPO)
    assert main(["--gin_file=mine.gin", "--root_dir=run", "TrainerConfig.num_iterations=1"]) == 0
    assert run_facts()["conf_file"] == str(Path("mine.gin").resolve())
    gin_config.clear()
    # The config may be gone: the run folder has all of it.
    Path("mine.gin").unlink()
    assert main(["--root_dir=run", "TrainerConfig.num_iterations=2"]) == 0
    assert run_facts()["conf_file"] == str(Path("run/config.gin").resolve())


def test_conf_file_reaches_the_algorithm_and_changes_no_option() -> None:
    seen: list[str] = []
    run = train(PPO, prepare=lambda trainer: seen.append(trainer.config.conf_file))
    assert seen == [str(Path("preset.gin").resolve())]
    assert "conf_file" not in Path("run/operative.gin").read_text()
    assert "changed" not in train(PPO).console
    assert run.result.iterations == 4


def test_conf_file_in_a_config_is_refused() -> None:
    said = refusal(PPO, "TrainerConfig.conf_file = 'other.gin'")
    assert "TrainerConfig.conf_file: is filled in by the commands: --gin_file names the config. Remove the line" in said


# no_thread_env_for_conf


@pytest.mark.parametrize("no_thread_env_for_conf", [True, False])
@pytest.mark.parametrize(("backend", "in_this_process", "in_others"), [("sync", 5, 0), ("process", 4, 2)])
def test_no_thread_env_for_conf_or_not_only_the_needed_environments_are_built(
    no_thread_env_for_conf: bool, backend: str, in_this_process: int, in_others: int
) -> None:
    """Two to train in, three to evaluate in, and for processes one to see the spaces: none to report the config."""
    text = f"""
import tests.options.built
create_environment.env_name = "tests/Built-v0"
create_environment.num_parallel_environments = 2
create_environment.backend = "{backend}"
eval/create_environment.backend = "sync"
"""
    train(PPO, EVALUATE + text, num_eval_environments=3, no_thread_env_for_conf=no_thread_env_for_conf)
    built = Path("built.txt").read_text().split()
    assert built.count(str(os.getpid())) == in_this_process
    assert len(built) == in_this_process + in_others
    # What the environments used is known all the same.
    assert "BuiltEnv.bonus = 0.0" in Path("run/operative.gin").read_text()
