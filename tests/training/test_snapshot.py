from __future__ import annotations

import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from torch import nn

from alfish import config as gin_config
from alfish import specs
from alfish.algorithms.algorithm import Algorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.child import Child
from alfish.environments.create import create_environment
from alfish.errors import ConfigError, WorkerLost
from alfish.seeding import Seeds
from alfish.training import snapshot
from alfish.training.build import build_algorithm
from alfish.training.snapshot import SharedParameters, acting_state

SHARED = Path("/dev") / "shm"


class Actor(Algorithm):
    """Acts with `policy`; learning also needs `critic`, which shares a layer with it."""

    learning_only = ("critic",)

    def __init__(self, size: int = 3, value: float = 0.0) -> None:
        super().__init__()
        shared = nn.Linear(size, size)
        self.critic = nn.Sequential(shared, nn.Linear(size, 7))
        self.policy = nn.Sequential(shared, nn.Linear(size, 2), nn.BatchNorm1d(2))
        self.fill(value)

    def fill(self, value: float) -> None:
        with torch.no_grad():
            for tensor in [*self.parameters(), *self.buffers()]:
                tensor.fill_(value)


def values(algorithm: Algorithm) -> set[float]:
    return {value for tensor in acting_state(algorithm).values() for value in tensor.flatten().tolist()}


def test_what_was_published_is_loaded_with_the_progress_of_its_moment() -> None:
    here, there = Actor(value=3.0), Actor()
    here.progress.iterations, here.progress.env_steps, here.progress.fraction = 5, 12_345_678_901, 0.25
    shared = SharedParameters(here)
    assert shared.publish(here) == 1
    here.fill(4.0)
    assert shared.load_into(there) == 1
    assert values(there) == {3.0}
    assert (there.progress.iterations, there.progress.env_steps, there.progress.fraction) == (5, 12_345_678_901, 0.25)
    assert isinstance(there.progress.iterations, int)
    assert shared.publish(here) == 2 == shared.load_into(there) == shared.version
    assert values(there) == {4.0}


def test_before_the_first_publication_nothing_changes() -> None:
    algorithm = Actor(value=2.0)
    assert SharedParameters(Actor()).load_into(algorithm) == 0
    assert values(algorithm) == {2.0}


def test_what_only_learning_needs_stays_at_home_unless_acting_shares_it() -> None:
    shared_layer = {"policy.0.weight", "policy.0.bias"}
    own = {f"policy.1.{name}" for name in ("weight", "bias")}
    norm = {f"policy.2.{name}" for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")}
    assert set(acting_state(Actor())) == shared_layer | own | norm


def test_the_attribute_holds_for_algorithms_inside_of_others() -> None:
    outer = Algorithm()
    outer.inner = Actor()
    assert set(acting_state(outer)) == {f"inner.{name}" for name in acting_state(Actor())}


@pytest.mark.parametrize(
    ("config", "idle"),
    [
        ("sac.gin", "critics."),
        ("ddpg.gin", "critics."),
        ("td3.gin", "critics."),
        ("sarsa.gin", "critics."),
        ("dqn.gin", "target_q_network."),
        ("ppo.gin", "-"),
    ],
)
def test_equal_acting_parameters_act_equally(config: str, idle: str) -> None:
    gin_config.load([config])
    options = TrainerConfig()
    with create_environment(num_parallel_environments=2) as env:
        here, there = (build_algorithm(options, env, Seeds(seed)) for seed in (1, 2))
        assert not [name for name in acting_state(here) if name.startswith((idle, "target_actor_network."))]
        shared = SharedParameters(here)
        shared.publish(here)
        shared.load_into(there)
        time_step = env.reset(seed=0)
        for algorithm in (here, there):
            algorithm.attach(algorithm.progress, algorithm.summary, Seeds(3))
        state = specs.zeros(here.rollout_state_spec, 2)
        steps = [algorithm.rollout_step(time_step, state) for algorithm in (here, there)]
        assert torch.equal(steps[0].output, steps[1].output)
        predictions = [algorithm.predict_step(time_step, ()) for algorithm in (here, there)]
        assert torch.equal(predictions[0].output, predictions[1].output)


def test_another_architecture_is_refused_by_name() -> None:
    shared = SharedParameters(Actor(size=3))
    with pytest.raises(ConfigError, match=r"Actor is not the algorithm .* policy\.0\.weight of shape \(3, 3\)"):
        shared.load_into(Actor(size=4))


def test_a_reader_never_sees_a_state_that_is_half_written() -> None:
    writer, reader = Actor(size=300), Actor(size=300)
    shared = SharedParameters(writer)
    done = threading.Event()

    def publish() -> None:
        while not done.is_set():
            writer.fill(float(shared.version + 1))
            shared.publish(writer)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        seen = 0
        for _ in range(200):
            version = shared.load_into(reader)
            assert version >= seen
            seen = version
            assert version == 0 or values(reader) == {float(version)}
    finally:
        done.set()
        thread.join()
    assert seen > 1


def test_a_publisher_that_never_finishes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_PATIENCE", 0.05)
    algorithm = Actor(value=1.0)
    shared = SharedParameters(algorithm)
    shared._sequence.fill_(1)  # as a publisher leaves it that dies in the middle
    with pytest.raises(WorkerLost, match="half-written"):
        shared.load_into(Actor())
    assert shared.publish(algorithm) == 1 == shared.load_into(Actor())  # the next one mends it


def named_memory() -> set[str]:
    """Of Python and torch, on the whole machine."""
    return {path.name for path in SHARED.iterdir() if path.name.startswith(("pym-", "torch_", "psm_"))}


def echo(pipe: Connection, shared: SharedParameters) -> None:
    algorithm = Actor()
    while True:
        pipe.recv()
        pipe.send((shared.load_into(algorithm), values(algorithm)))


def test_another_process_sees_every_publication_and_the_memory_has_no_name() -> None:
    before = named_memory()
    algorithm = Actor()
    shared = SharedParameters(algorithm)
    child = Child("the reader", echo, (shared,))
    try:
        for value in (1.0, 2.0):
            algorithm.fill(value)
            shared.publish(algorithm)
            child.send("load")
            assert child.receive(timeout=60.0) == (int(value), {value})
        assert named_memory() == before
    finally:
        child.stop()


def test_publishing_costs_little() -> None:
    algorithm = Actor(size=256)
    shared = SharedParameters(algorithm)
    shared.publish(algorithm)
    begin = time.perf_counter()
    for _ in range(10):
        shared.publish(algorithm)
    assert (time.perf_counter() - begin) / 10 < 0.05
