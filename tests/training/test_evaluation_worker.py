from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish import config as gin_config
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.create import create_environment
from alfish.seeding import Seeds
from alfish.training.build import build_algorithm
from alfish.training.evaluation_worker import Failed, Played, Ready, evaluate_on_request
from alfish.training.evaluator import Evaluator, create_eval_environment
from alfish.training.snapshot import SharedParameters
from alfish.training.worker_config import WorkerConfig

PPO = [
    'create_environment.env_name="CartPole-v1"',
    "eval/create_environment.max_episode_steps=30",
    "TrainerConfig.algorithm_ctor=@PPOAlgorithm",
    "TrainerConfig.data_transformer_ctor=@ObservationNormalizer",
    "TrainerConfig.num_eval_episodes=4",
    "TrainerConfig.num_eval_environments=2",
    "TrainerConfig.epsilon_greedy=0.5",
]


class FailsOnce(gym.Env):
    """Raises in the first step that was ever made with it."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    failed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        if not FailsOnce.failed:
            FailsOnce.failed = True
            raise ValueError("the wheel came off")
        return np.zeros(1, np.float32), 1.0, True, False, {}


gym.register("FailsOnce-v0", FailsOnce)


@contextmanager
def serving(algorithm: RLAlgorithm, seeds: Seeds) -> Iterator[tuple[Connection, SharedParameters]]:
    """The worker in a thread of this process; it installs what was loaded here anyway."""
    here, there = Pipe()
    parameters = SharedParameters(algorithm)
    setup = WorkerConfig.of(TrainerConfig(), True, "TrainerConfig.async_eval")

    def work() -> None:
        with pytest.raises(EOFError):
            evaluate_on_request(there, setup, seeds.root, [parameters])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield here, parameters
    finally:
        here.close()
        thread.join()


def receive(pipe: Connection) -> Any:
    assert pipe.poll(60)
    return pipe.recv()


def built(seeds: Seeds) -> RLAlgorithm:
    with create_environment() as env:
        return build_algorithm(TrainerConfig(), env, seeds)


def test_equal_parameters_and_seed_give_the_returns_of_the_evaluator_itself() -> None:
    gin_config.load([], PPO)
    seeds = Seeds(5)
    algorithm = built(seeds)
    with torch.no_grad():
        for tensor in algorithm.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=seeds.torch("noise")) * 0.3)
        for buffer in algorithm.data_transformer.buffers():
            buffer.add_(2.0)
    with create_eval_environment(2) as env:
        expected = Evaluator(env, seeds.child("eval")).evaluate(algorithm, 4)
    assert max(expected[1]) <= 30  # of the scope eval/
    with serving(algorithm, seeds) as (pipe, parameters):
        assert isinstance(receive(pipe), Ready)
        parameters.publish(algorithm)
        for _ in range(2):
            pipe.send(0)
            answer = receive(pipe)
            assert isinstance(answer, Played)
            assert (answer.returns, answer.lengths) == expected
        assert any(scope == "eval" for scope, _, _ in answer.used)


def test_an_evaluation_that_raises_is_told_and_the_next_one_works() -> None:
    gin_config.load([], ['create_environment.env_name="FailsOnce-v0"', "TrainerConfig.algorithm_ctor=@PPOAlgorithm"])
    FailsOnce.failed = False
    algorithm = built(Seeds(1))
    with serving(algorithm, Seeds(1)) as (pipe, parameters):
        assert isinstance(receive(pipe), Ready)
        parameters.publish(algorithm)
        pipe.send(0)
        answer = receive(pipe)
        assert isinstance(answer, Failed)
        assert "the wheel came off" in answer.text
        assert isinstance(receive(pipe), Ready)
        pipe.send(0)
        answer = receive(pipe)
        assert isinstance(answer, Played)
        assert answer.returns == (1.0,) * 10
