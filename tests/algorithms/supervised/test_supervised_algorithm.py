from __future__ import annotations

import pytest
import torch

from alfish.algorithms.ownership import assign_optimizers
from alfish.algorithms.supervised.supervised_algorithm import SupervisedAlgorithm
from alfish.errors import ConfigError
from alfish.optimizers.sgd import SGD
from tests.algorithms.supervised.regression import LineAlgorithm, line_data, started


def test_an_epoch_is_an_iteration():
    algorithm = started(mini_batch_size=2)
    algorithm.train_iter()
    algorithm.train_iter()
    assert (algorithm.progress.iterations, algorithm.progress.updates, algorithm.progress.env_steps) == (2, 6, 0)


def test_its_optimizer_owns_its_parameters():
    assert list(started().loop.updater.ownership.parameters["SGD"]) == ["slope"]


def test_a_state_of_the_run_goes_on_where_it_was():
    one = started(lr=0.001, mini_batch_size=4)
    one.train_iter()
    torch.rand(3, generator=one.generator)
    other = started(lr=0.001, mini_batch_size=4)
    assert other.load_run_state(one.run_state())
    assert other.metrics.examples == 6
    assert other.loop.updater.average_loss == one.loop.updater.average_loss
    assert torch.equal(other.generator.get_state(), one.generator.get_state())


def test_the_best_is_what_loses_least_unless_it_says_otherwise():
    assert LineAlgorithm(line_data()).score({"loss": 3.0}) == -3.0


@pytest.mark.parametrize("method", ["evaluate", "eval_uncertainty"])
def test_what_a_subclass_does_not_say_is_told(method):
    with pytest.raises(NotImplementedError, match="SupervisedAlgorithm"):
        getattr(SupervisedAlgorithm(line_data()), method)()
    with pytest.raises(NotImplementedError, match="needs batch_loss"):
        SupervisedAlgorithm(line_data()).batch_loss(line_data().train)


def test_parameters_without_an_optimizer_are_refused():
    algorithm = LineAlgorithm(line_data())
    algorithm.optimizer = None
    with pytest.raises(ConfigError, match="no optimizer owns slope"):
        assign_optimizers(algorithm)


def test_it_stands_where_its_parameters_are():
    assert LineAlgorithm(line_data(), optimizer=SGD(lr=1.0)).device == torch.device("cpu")
