from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import Any

import pytest
import torch
from torch import nn

from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.transformers.moments import RunningMoments
from alfish.algorithms.transformers.normalizers import ObservationNormalizer
from alfish.environments.create import create_environment
from alfish.seeding import Seeds
from alfish.specs import TensorSpec
from alfish.training.build import build_algorithm
from alfish.training.experience_ring import RingReader, Row, make_ring
from alfish.training.snapshot import SharedParameters
from alfish.training.unroll_worker import Pace, Ready, Share, act, example_row
from alfish.types import AlgStep, Nest, StepType, TimeStep
from tests.training.tiny import bind

PATIENCE = 30.0  # seconds that a busy machine may take


class Parrot(RLAlgorithm):
    """Tells in its info what it knows: its parameter, its counters, and what it sees."""

    on_policy = False

    def __init__(self, observation_spec: Nest, action_spec: Nest, config: TrainerConfig, **_: Any) -> None:
        super().__init__(observation_spec, action_spec, TensorSpec(()), config)
        self.weight = nn.Parameter(torch.zeros(()))

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        known = torch.stack([self.weight.detach(), torch.tensor(float(self.progress.env_steps))])
        info = {"known": known.expand(len(time_step.reward), 2), "seen": time_step.observation}
        return AlgStep(torch.zeros(len(time_step.reward), dtype=torch.int64), (), info)


@dataclass
class Stage:
    """A learner, and the ends that it has of a worker."""

    algorithm: RLAlgorithm
    parameters: SharedParameters
    reader: RingReader
    pipe: Any
    thread: threading.Thread

    def publish(self, weight: float) -> None:
        with torch.no_grad():
            self.algorithm.weight.fill_(weight)  # type: ignore[operator, union-attr]
        self.parameters.publish(self.algorithm)

    def take(self, number: int) -> Row:
        while self.reader.available < number:
            assert self.reader.announced.poll(PATIENCE)
        return self.reader.take(number)


class Installed:
    """A configuration that needs no installing: the worker is a thread."""

    def __init__(self, config: TrainerConfig) -> None:
        self.install = lambda: config


@contextmanager
def working(share: Share, queue_size: int = 4, **options: Any) -> Iterator[Stage]:
    """A worker in a thread; episodes of three steps."""
    bind('create_environment.env_name = "alfish/ConstantRewardProbe-v0"\nConstantRewardProbe.episode_length = 3')
    config = TrainerConfig(algorithm_ctor=Parrot, async_unroll=True, **options)
    env = create_environment(num_parallel_environments=share.num_environments)
    algorithm = build_algorithm(config, env, Seeds(0))
    parameters = SharedParameters(algorithm)
    writer, reader = make_ring(example_row(algorithm, env, env.batch_size), queue_size)
    ours, theirs = Pipe()
    thread = threading.Thread(target=act, args=(theirs, Installed(config), share, parameters, writer), daemon=True)
    thread.start()
    assert ours.poll(PATIENCE)
    assert isinstance(ours.recv(), Ready)
    try:
        yield Stage(algorithm, parameters, reader, ours, thread)
    finally:
        ours.close()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a worker leaves when its pipe is closed"


ALONE = Share(index=0, num_workers=1, num_environments=2, run_seed=0, root_seed=1)


def test_a_worker_acts_from_the_first_parameters_on_and_then_with_the_newest() -> None:
    with working(ALONE, queue_size=1) as stage:
        assert stage.reader.opening().is_first().all()
        assert not stage.reader.announced.poll(0.2), "nothing to act with yet"
        stage.publish(0.5)
        rows = stage.take(1)
        assert rows.version.tolist() == [[1, 1]]
        assert rows.rollout_info["known"][0, :, 0].tolist() == [0.5, 0.5]
        stage.publish(0.75)
        for _ in range(3):  # those that were under way are older
            rows = stage.take(1)
        assert rows.version.tolist() == [[2, 2]]
        assert rows.rollout_info["known"][0, :, 0].tolist() == [0.75, 0.75]


def test_rows_are_the_stream_of_the_environments() -> None:
    with working(ALONE) as stage:
        stage.publish(0.0)
        rows = [stage.take(1) for _ in range(6)]
    kinds = [row.time_step.step_type[0, 0].item() for row in rows]
    assert kinds == [StepType.MID, StepType.MID, StepType.LAST, StepType.FIRST, StepType.MID, StepType.MID]


def test_environments_have_the_indices_of_the_whole_run() -> None:
    with working(Share(index=2, num_workers=3, num_environments=2, run_seed=0, root_seed=1)) as stage:
        stage.publish(0.0)
        assert stage.reader.opening().env_id.tolist() == [4, 5]
        assert stage.take(1).time_step.env_id.tolist() == [[4, 5]]


def test_counters_follow_the_steps_that_are_taken_and_not_those_that_were_learned_from() -> None:
    with working(Share(index=0, num_workers=3, num_environments=2, run_seed=0, root_seed=1)) as stage:
        stage.algorithm.progress.env_steps = 100
        stage.publish(0.0)
        counts = [stage.take(1).rollout_info["known"][0, 0, 1].item() for _ in range(5)]
    # Three workers with two environments; the fourth step only resets.
    assert counts == [100, 106, 112, 118, 118]


def test_random_actions_end_with_the_initial_collection() -> None:
    with working(ALONE, initial_collect_steps=20, random_initial_collect=True) as stage:
        stage.publish(0.0)
        actions = torch.cat([stage.take(1).action for _ in range(40)]).flatten()
    assert actions[:26].sum() > 0  # 13 steps, of which 3 only reset
    assert actions[26:].sum() == 0, "what the algorithm does"


def test_statistics_are_those_of_the_learner() -> None:
    with working(ALONE, data_transformer_ctor=ObservationNormalizer) as stage:
        moments = stage.algorithm.data_transformer.get_submodule("transformers.0.moments.0")
        assert isinstance(moments, RunningMoments)
        moments.count.fill_(10.0)
        moments.mean.fill_(3.0)
        stage.publish(0.0)
        seen = torch.cat([stage.take(1).rollout_info["seen"] for _ in range(8)])
    assert torch.equal(seen, torch.full_like(seen, -3.0)), "every observation is 0, and none was taken in"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Waiting:
    """A pipe over which nothing comes; waiting takes as long as it says."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def poll(self, seconds: float) -> bool:
        self._clock.now += seconds
        return False


def test_steps_are_made_at_a_fixed_interval_and_late_ones_counted() -> None:
    clock = Clock()
    late: list[float] = []
    pace, pipe = Pace(0.1, lambda: late.append(clock.now), clock), Waiting(clock)
    begun = []
    for seconds in (0.03, 0.09, 0.25, 0.01, 0.01):  # that the steps take
        assert pace.keep(pipe)  # type: ignore[arg-type]
        begun.append(clock.now)
        clock.now += seconds
    assert begun == pytest.approx([0.0, 0.1, 0.2, 0.45, 0.55])
    assert late == pytest.approx([0.45])


def test_without_an_interval_there_is_no_waiting_and_nothing_is_late() -> None:
    clock = Clock()
    pace = Pace(0.0, lambda: pytest.fail("late"), clock)
    for _ in range(3):
        assert pace.keep(Waiting(clock))  # type: ignore[arg-type]
    assert clock.now == 0.0


def test_waiting_for_the_next_step_ends_with_the_pipe() -> None:
    ours, theirs = Pipe()
    pace = Pace(PATIENCE, lambda: None)
    assert pace.keep(theirs)
    ours.close()
    assert not pace.keep(theirs)
