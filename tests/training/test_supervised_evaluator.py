from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish.errors import ConfigError
from alfish.seeding import Seeds
from alfish.training.evaluator import Evaluated
from alfish.training.supervised_evaluator import SupervisedEvaluator
from tests.algorithms.supervised.regression import LineAlgorithm, line_data, started


class Watched(LineAlgorithm):
    """Tells how it was asked."""

    def evaluate(self) -> dict[str, Any]:
        noise = torch.rand((), generator=self.generator)
        return {"loss": torch.tensor(3.0), "training": self.training, "grad": torch.is_grad_enabled(), "noise": noise}

    def eval_uncertainty(self) -> dict[str, float]:
        return {"doubt": 0.5}


def test_a_result_is_of_its_moment_and_scored_as_the_algorithm_says():
    evaluator, algorithm = SupervisedEvaluator(Seeds(0), False), started()
    assert evaluator.take() == []
    evaluator.submit(Evaluated(7, 0, 21), algorithm)
    assert evaluator.pending is None
    (finished,) = evaluator.take()
    assert evaluator.take() == []
    result = finished.result(best_score=-500.0)
    loss = sum(4 * x * x for x in range(1, 7)) / 6
    assert result.metrics == {"loss": pytest.approx(loss)}
    assert (result.iteration, result.score, result.best_score) == (7, -result.metrics["loss"], -500.0)
    assert result.scored(None).best_score == result.score
    assert result.scored(lambda result: 3.0).score == 3.0


def test_nothing_of_training_is_touched_and_every_evaluation_is_the_same():
    algorithm = Watched(line_data())
    before = algorithm.generator.get_state()
    evaluator = SupervisedEvaluator(Seeds(0), False)
    one, other = evaluator.evaluate(algorithm), evaluator.evaluate(algorithm)
    assert one == other
    assert (one["loss"], one["training"], one["grad"]) == (3.0, 0.0, 0.0)
    assert all(type(value) is float for value in one.values())
    assert torch.equal(algorithm.generator.get_state(), before)
    assert algorithm.training


def test_uncertainty_is_asked_for_on_request_only():
    algorithm = Watched(line_data())
    assert "doubt" not in SupervisedEvaluator(Seeds(0), False).evaluate(algorithm)
    assert SupervisedEvaluator(Seeds(0), True).evaluate(algorithm)["doubt"] == 0.5


def test_a_name_that_means_two_things_is_refused():
    algorithm = Watched(line_data())
    algorithm.eval_uncertainty = lambda: {"loss": 1.0}  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="Watched: evaluate and eval_uncertainty both return loss"):
        SupervisedEvaluator(Seeds(0), True).evaluate(algorithm)
