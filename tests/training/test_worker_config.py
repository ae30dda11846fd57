from __future__ import annotations

import pickle
from types import SimpleNamespace

import gin
import pytest

from alfish import config as gin_config
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.problems import ConfigProblems
from alfish.config.registry import configurable
from alfish.training.stop_condition import ReturnAtLeast
from alfish.training.worker_config import WorkerConfig
from tests.training.tiny import OPTIONS, bind

MADE: list[SimpleNamespace] = []


@configurable
def make_hook() -> SimpleNamespace:
    MADE.append(SimpleNamespace(on_train_start=print, unpicklable=lambda: None))
    return MADE[-1]


def sent(config: TrainerConfig, from_gin: bool) -> TrainerConfig:
    """What a worker gets, which knows nothing yet."""
    package = pickle.dumps(WorkerConfig.of(config, from_gin, "TrainerConfig.async_eval"))
    with gin_config.isolated():
        gin_config.clear()
        return pickle.loads(package).install()  # noqa: S301


def test_options_of_a_config_file_are_made_anew_from_it() -> None:
    gin_config.load(["ppo.gin"], ["TrainerConfig.num_eval_episodes=7"])
    received = sent(TrainerConfig(), from_gin=True)
    assert received == TrainerConfig()
    assert received.num_eval_episodes == 7


def test_options_given_in_python_are_taken_along() -> None:
    bind()
    given = TrainerConfig(**{**OPTIONS, "num_eval_episodes": 7})
    assert sent(given, from_gin=False) == given


def test_bindings_made_without_a_file_reach_the_worker() -> None:
    bind()
    package = pickle.dumps(WorkerConfig.of(TrainerConfig(**OPTIONS), False, "TrainerConfig.async_eval"))
    with gin_config.isolated():
        gin_config.clear()
        pickle.loads(package).install()  # noqa: S301
        assert gin.query_parameter("Adam.lr") == 0.01
        assert gin.query_parameter("create_environment.env_name") == "alfish/PolicyUnittest-v0"


@pytest.mark.parametrize("from_gin", [True, False])
def test_what_only_the_trainer_uses_is_neither_sent_nor_made_again(from_gin: bool) -> None:
    MADE.clear()
    bind(
        "TrainerConfig.algorithm_ctor = @PPOAlgorithm\nTrainerConfig.hooks = [@make_hook()]\n"
        "TrainerConfig.evaluate = True\nTrainerConfig.evaluate_upon_training_success = True\n"
        "TrainerConfig.stop_condition = @ReturnAtLeast()\nReturnAtLeast.value = 1\n"
    )
    config = TrainerConfig(score_fn=lambda result: 0.0)
    assert isinstance(config.stop_condition, ReturnAtLeast)
    received = sent(config, from_gin)
    assert (received.hooks, received.stop_condition, received.score_fn) == ((), None, None)
    assert received.algorithm_ctor is PPOAlgorithm
    assert len(MADE) == 1


def test_what_cannot_be_sent_is_named_with_the_way_out() -> None:
    bind()
    config = TrainerConfig(**{**OPTIONS, "algorithm_ctor": lambda **arguments: PPOAlgorithm(**arguments)})
    with pytest.raises(ConfigProblems) as caught:
        WorkerConfig.of(config, False, "TrainerConfig.async_eval")
    message = str(caught.value)
    assert message.startswith("TrainerConfig.algorithm_ctor: cannot be sent to a worker process: ")
    assert message.endswith("or set TrainerConfig.async_eval=False")


def test_a_worker_knows_which_config_the_run_was_started_with() -> None:
    gin_config.load(["ppo.gin"])
    given = TrainerConfig(conf_file="mine.gin")
    assert sent(given, from_gin=True) == given
