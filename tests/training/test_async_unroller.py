from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.transformers.normalizers import ObservationNormalizer
from alfish.child import Child
from alfish.config.loading import load
from alfish.environments.create import create_environment
from alfish.errors import ConfigError
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training import unroll_supervisor
from alfish.training.async_unroller import AsyncUnroller
from alfish.training.build import build_algorithm
from alfish.training.trainer import Trainer
from alfish.types import StepType
from tests.training.fake_worker import FakeChild
from tests.training.tiny import bind, column

PROBE = """
create_environment.env_name = "alfish/ConstantRewardProbe-v0"
DqnAlgorithm.q_network_ctor = @QNetwork
DqnAlgorithm.optimizer = @Adam()
QNetwork.fc_layer_params = (4,)
"""
OPTIONS: dict[str, Any] = {
    "algorithm_ctor": DqnAlgorithm,
    "async_unroll": True,
    "unroll_length": 2,
    "num_updates_per_train_iter": 3,
    "mini_batch_size": 4,
    "whole_replay_buffer_training": False,
    "clear_replay_buffer": False,
    "unroll_queue_size": 8,
}


class Run:
    """An algorithm that has begun to learn from workers that the test plays, two environments each."""

    def __init__(self, num_workers: int = 1, **options: Any) -> None:
        bind(PROBE)
        config = TrainerConfig(**{**OPTIONS, "num_unroll_workers": num_workers, **options})
        env = create_environment(num_parallel_environments=2 * num_workers)
        self.seeds, self.progress = Seeds(0), Progress()
        self.summary = Summary([], self.progress)
        self.summary.enabled = True
        self.algorithm: RLAlgorithm = build_algorithm(config, env, self.seeds)
        self.unroller = AsyncUnroller(self.algorithm, env, config, None, self.seeds, Timers())  # type: ignore[arg-type]
        self.unroller._wait = self._first_words  # type: ignore[method-assign]
        self.algorithm.start(env, config, self.seeds, self.progress, self.summary, Timers(), self.unroller)
        self.unroller._wait = lambda: pytest.fail("waits for a worker")  # type: ignore[method-assign]

    @property
    def workers(self) -> list[FakeChild]:
        return FakeChild.made

    def _first_words(self) -> None:
        for worker in self.workers:
            worker.begin(0.0, 0.5)
        self.unroller._look()


@pytest.fixture(autouse=True)
def played_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeChild, "made", [], raising=False)
    monkeypatch.setattr(unroll_supervisor, "Child", FakeChild)


def test_an_iteration_takes_exactly_unroll_length_steps_of_every_environment() -> None:
    run = Run(num_workers=2)
    for number in range(1, 6):
        run.workers[0].act(number, number + 0.5)
    for number in range(1, 4):
        run.workers[1].act(10 * number, 10 * number + 0.5)
    experience = run.algorithm.unroll(2)
    assert experience is not None
    assert experience.length == 2
    assert experience.time_step.reward.tolist() == [
        [0.0, 0.5, 0.0, 0.5],
        [1.0, 1.5, 10.0, 10.5],
        [2.0, 2.5, 20.0, 20.5],
    ]
    assert experience.action.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0]]
    assert run.progress.env_steps == 8, "those that were taken count"
    assert run.algorithm.time_step.reward.tolist() == [2.0, 2.5, 20.0, 20.5]


def test_zero_takes_what_every_worker_has_up_to_the_maximum_or_nothing() -> None:
    run = Run(num_workers=2, unroll_length=0, max_unroll_length=3)
    lengths = []
    for steps in ((1, 2), (0, 0), (0, 7), (5, 0), (0, 0)):
        run.progress.updates = 1  # before the first update it would wait
        for worker, number in zip(run.workers, steps, strict=True):
            for _ in range(number):
                worker.act(1.0, 1.0)
        unrolled = run.algorithm._interact()
        lengths.append(0 if unrolled is None else unrolled.experience.length)
    assert lengths == [1, 0, 0, 3, 2]


def test_before_the_first_update_there_is_nothing_to_do_but_to_wait() -> None:
    run = Run(unroll_length=0, max_unroll_length=3)
    run.unroller._wait = lambda: run.workers[0].act(1.0, 1.0)  # type: ignore[method-assign]
    unrolled = run.algorithm._interact()
    assert unrolled is not None
    assert unrolled.experience.length == 1


def test_parameters_are_published_before_the_first_step_and_then_once_per_period() -> None:
    run = Run(unroll_parameter_update_period=2, unroll_length=1)
    (worker,) = run.workers
    versions = []
    assert worker.parameters.version == 0, "a resumed run first loads its parameters"
    for _ in range(5):
        worker.act(1.0, 1.0)
        run.algorithm.train_iter()
        versions.append(worker.parameters.version)
    assert versions == [1, 1, 2, 2, 3]


def test_the_lag_is_how_many_updates_the_experience_is_behind() -> None:
    run = Run(unroll_length=2, unroll_parameter_update_period=1)
    (worker,) = run.workers
    for version in (1, 1, 1, 2):
        worker.act(1.0, 1.0, version=version)
    run.algorithm.train_iter()
    assert run.progress.updates == 3
    assert run.summary.write()["Unroll/lag"] == 0
    run.algorithm.train_iter()  # half by the parameters of the start, half by those after 3 updates
    assert run.summary.write()["Unroll/lag"] == 1.5


def test_no_stored_sequence_leads_from_a_lost_worker_into_the_next() -> None:
    run = Run(num_workers=2)
    for worker in run.workers:
        worker.act(1.0, 1.5)
        worker.act(2.0, 2.5)
    run.algorithm.train_iter()
    run.workers[1].act(3.0, 3.5)
    run.workers[1].act(4.0, 4.5)
    run.workers[0].act(3.0, 3.5)
    run.workers[0].die()
    run.unroller._look()
    replacement = run.workers[-1]
    replacement.begin(100.0, 100.5)
    replacement.act(101.0, 101.5)
    run.unroller._look()
    run.algorithm.train_iter()
    assert run.algorithm.replay is not None
    stored = run.algorithm.replay.gather_all().time_step
    last, first, mid = StepType.LAST, StepType.FIRST, StepType.MID
    assert stored.reward[:, 0].tolist() == [0.0, 1.0, 2.0, 100.0, 101.0]
    assert stored.step_type[:, 0].tolist() == [first, mid, last, first, mid]
    assert stored.discount[2, 0] == 1, "a time limit"
    assert stored.step_type[:, 2].tolist() == [first, mid, mid, mid, mid], "the other worker goes on"
    assert run.progress.env_steps == 4 * 2 + 4 + 2, "the way into the new episode is no step"
    assert run.summary.write()["Unroll/restarts"] == 0.5  # the mean of two iterations


def test_statistics_take_in_every_time_step_that_was_acted_on_once() -> None:
    run = Run(data_transformer_ctor=ObservationNormalizer)
    moments: Any = run.algorithm.data_transformer.get_submodule("transformers.0.moments.0")
    assert moments.count == 0, "the step on trial does not count"
    for number in range(1, 5):
        run.workers[0].act(number, number)
    run.algorithm.train_iter()
    run.algorithm.train_iter()
    assert moments.count == 8
    assert moments.mean.item() == pytest.approx((0.0 + 0.5 + 2 * (1 + 2 + 3)) / 8)


def test_without_interaction_the_workers_are_stopped() -> None:
    run = Run()
    run.workers[0].act(1.0, 1.0)
    run.workers[0].act(1.0, 1.0)
    run.algorithm.train_iter()
    run.algorithm.train_iter(interact=False)
    assert run.workers[0].is_stopped
    assert run.progress.updates == 6


def test_late_steps_are_shown_and_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(unroll_step_interval=0.5)
    for _ in range(4):
        run.workers[0].act(1.0, 1.0)
        run.workers[0].ring.count_late_step()
    run.algorithm.train_iter()
    run.algorithm.train_iter()
    assert run.summary.write()["Unroll/late_steps"] == 4
    assert caplog.text.count("slower than TrainerConfig.unroll_step_interval = 0.5 s") == 1


def test_the_environments_of_this_process_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    bind(PROBE)
    env = create_environment(num_parallel_environments=2)
    closed: list[bool] = []
    monkeypatch.setattr(env, "close", lambda: closed.append(True))
    config = TrainerConfig(**OPTIONS)
    AsyncUnroller(build_algorithm(config, env, Seeds(0)), env, config, None, Seeds(0), Timers())  # type: ignore[arg-type]
    assert closed


def test_an_on_policy_algorithm_is_refused() -> None:
    bind(PROBE)
    env = create_environment()
    config = TrainerConfig(algorithm_ctor=PPOAlgorithm, async_unroll=True)
    algorithm = build_algorithm(config, env, Seeds(0))
    with pytest.raises(ConfigError, match=r"async_unroll = True: PPOAlgorithm is on-policy.*Set async_unroll = False"):
        AsyncUnroller(algorithm, env, config, None, Seeds(0), Timers())  # type: ignore[arg-type]
    algorithm.tolerates_lag = True
    AsyncUnroller(algorithm, env, config, None, Seeds(0), Timers())  # type: ignore[arg-type]


def test_workers_that_cannot_share_the_environments_are_refused() -> None:
    bind(PROBE)
    env = create_environment(num_parallel_environments=4)
    config = TrainerConfig(**{**OPTIONS, "num_unroll_workers": 3})
    with pytest.raises(ConfigError, match=r"num_unroll_workers = 3 does not divide .* = 4: .* 1, 2, 4 would"):
        AsyncUnroller(build_algorithm(config, env, Seeds(0)), env, config, None, Seeds(0), Timers())  # type: ignore[arg-type]


GIN = """
create_environment.env_name = "CartPole-v1"
create_environment.num_parallel_environments = 4
TrainerConfig.algorithm_ctor = @DqnAlgorithm
TrainerConfig.random_seed = 1
TrainerConfig.num_iterations = 30
TrainerConfig.num_env_steps = 400
TrainerConfig.async_unroll = True
TrainerConfig.num_unroll_workers = 2
TrainerConfig.unroll_length = 5
TrainerConfig.unroll_parameter_update_period = 1
TrainerConfig.mini_batch_size = 8
TrainerConfig.num_updates_per_train_iter = 1
TrainerConfig.whole_replay_buffer_training = False
TrainerConfig.clear_replay_buffer = False
TrainerConfig.summary_interval = 1
TrainerConfig.show_progress = False
DqnAlgorithm.q_network_ctor = @QNetwork
DqnAlgorithm.optimizer = @Adam()
QNetwork.fc_layer_params = (4,)
"""


def test_a_run_from_a_file_with_processes_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(unroll_supervisor, "Child", Child)
    (tmp_path / "async.gin").write_text(GIN)
    load([str(tmp_path / "async.gin")])
    result = Trainer(root_dir=str(tmp_path / "run"), strict=True).train()
    assert result.iterations == 30
    assert 400 <= result.env_steps < 420, "interaction ends with its budget, learning goes on"
    assert result.updates == 30
    assert result.episodes > 5
    assert "2 worker(s) act meanwhile" in capsys.readouterr().err
    lag = column(tmp_path / "run" / "progress.csv", "Unroll/lag")
    assert len(lag) >= 20
    assert 0 <= min(lag) <= max(lag) < 30

    load(
        [str(tmp_path / "async.gin")],
        ["TrainerConfig.num_iterations=34", "TrainerConfig.num_env_steps=480", "TrainerConfig.num_unroll_workers=1"],
    )
    resumed = Trainer(root_dir=str(tmp_path / "run")).train()
    assert resumed.iterations == 34
    assert resumed.env_steps > 400
