from __future__ import annotations

from typing import Any

import pytest

from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.create import create_environment
from alfish.errors import ConfigError
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.dataset import write_dataset
from alfish.training.environment_task import EnvironmentTask
from alfish.training.evaluator import InProcessEvaluator
from tests.algorithms.recorded import POLICY, random_tape
from tests.training import tiny


def make(**options: Any) -> EnvironmentTask:
    tiny.bind()
    return EnvironmentTask(TrainerConfig(**{**tiny.OPTIONS, **options}), Seeds(1), from_gin=False)


def test_it_says_what_is_learned_in(monkeypatch):
    monkeypatch.setattr("alfish.environments.create.usable_cores", lambda: 2)
    task = make()
    assert str(task) == "4 x alfish/PolicyUnittest-v0"
    assert task.identity() == {"environment": "alfish/PolicyUnittest-v0"}
    assert task.facts() == {"num_environments": 4, "num_ranks": 1}
    task.start(Progress(), Summary.disabled(), Timers())
    (words,) = task.words()
    assert words.startswith("backend: sync (alfish/PolicyUnittest-v0: ")
    assert task.num_restarts == 0
    task.close()


def test_there_is_no_interaction_beyond_the_environment_steps_of_the_budget():
    task = make(num_env_steps=16, num_iterations=0)
    progress = Progress()
    task.start(progress, Summary.disabled(), Timers())
    task.train_iter(progress)
    steps = progress.env_steps
    assert steps >= 16
    assert not task.budget.may_interact(progress)
    task.close()


def test_an_error_while_it_is_made_closes_the_environments(monkeypatch):
    closed = []
    monkeypatch.setattr("alfish.environments.sync.SyncEnvironment.close", lambda self: closed.append(self))
    with pytest.raises(ConfigError):
        make(algorithm_ctor=lambda **arguments: None)
    assert len(closed) == 1


def test_evaluation_is_beside_training_or_in_between():
    task = make(evaluate=True)
    assert not task.evaluates_later
    evaluator = task.make_evaluator()
    assert isinstance(evaluator, InProcessEvaluator)
    evaluator.close()
    task.close()
    later = make(evaluate=True, async_eval=True)
    assert later.evaluates_later
    later.close()


def test_recorded_data_are_told_and_kept_in_mind(tmp_path):
    write_dataset(tmp_path / "data", random_tape(num_steps=20), create_environment(POLICY), {})
    tiny.bind("DqnAlgorithm.optimizer = @Adam()")
    source = str(tmp_path / "data")
    options = {"algorithm_ctor": DqnAlgorithm, "offline_buffer_dir": source, "rl_train_after_update_steps": 3}
    task = make(**options, whole_replay_buffer_training=False)
    line = f"offline data: {source} (dataset), 20 steps of 4 episodes"
    progress = Progress()
    task.start(progress, Summary.disabled(), Timers())
    assert task.words()[1:3] == [line, "nobody acts before 3 updates are made"]
    assert task.facts() == {"num_environments": 4, "num_ranks": 1, "offline_data": [line]}
    assert task.counts == "env_steps"
    progress.updates = 3
    assert not any("nobody acts" in words for words in task.words())
    task.close()
    never = make(**{**options, "rl_train_after_update_steps": 4}, whole_replay_buffer_training=False)
    never.start(Progress(), Summary.disabled(), Timers())
    assert never.words()[1:3] == [line, "nobody acts in this run"]
    assert (never.counts, never.budget.offline_updates) == ("updates", 1)
    never.close()
