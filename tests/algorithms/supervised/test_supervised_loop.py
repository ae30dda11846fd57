from __future__ import annotations

import math
from itertools import chain

import pytest
import torch

from alfish.algorithms.supervised.dataset import Dataset, Examples
from alfish.errors import NumericFault
from tests.algorithms.supervised.regression import LineAlgorithm, line_data, started


def orders(algorithm: LineAlgorithm, epochs: int) -> list[list[int]]:
    """The examples of every epoch, in their order."""
    found = []
    for _ in range(epochs):
        algorithm.seen.clear()
        algorithm.train_iter()
        found.append(list(chain.from_iterable(algorithm.seen)))
    return found


def test_every_example_is_learned_from_once_per_epoch_in_an_order_of_its_own():
    first, second, third = orders(started(mini_batch_size=4), 3)
    assert sorted(first) == sorted(second) == sorted(third) == list(range(6))
    assert len({tuple(first), tuple(second), tuple(third)}) == 3


def test_the_order_is_a_function_of_the_seed_and_the_number_of_the_epoch():
    assert orders(started(seed=3), 2) == orders(started(seed=3), 2) != orders(started(seed=4), 2)
    late = started(seed=3)
    late.progress.iterations = 1  # a run that goes on after the first epoch
    assert orders(late, 1)[0] == orders(started(seed=3), 2)[1]


@pytest.mark.parametrize(("size", "sizes"), [(4, [4, 2]), (3, [3, 3]), ("whole", [6]), (100, [6]), (1, [1] * 6)])
def test_mini_batches_have_the_size_asked_for_and_the_last_one_what_is_left(size, sizes):
    algorithm = started(mini_batch_size=size)
    algorithm.train_iter()
    assert list(map(len, algorithm.seen)) == sizes
    assert algorithm.progress.updates == algorithm.num_after_updates == len(sizes)


def test_without_a_size_it_is_64():
    algorithm = started(dataset=line_data(number=100))
    algorithm.train_iter()
    assert list(map(len, algorithm.seen)) == [64, 36]


def test_an_epoch_by_hand():
    """The gradient of mean((a x - 2 x)^2) at a = 0 is -4 mean(x^2) = -4 * 91 / 6."""
    algorithm = started(lr=0.01, mini_batch_size="whole")
    algorithm.train_iter()
    assert algorithm.slope.item() == pytest.approx(0.01 * 4 * 91 / 6)
    assert algorithm.metrics.headline == ("loss", pytest.approx(4 * 91 / 6))


def test_metrics_count_examples_as_often_as_they_were_learned_from():
    algorithm = started()
    orders(algorithm, 3)
    assert algorithm.metrics.results() == {"Examples": 18}
    assert algorithm.metrics.average_return is None


def broken_data() -> Dataset:
    whole = line_data()
    targets = whole.train.targets.clone()
    targets[2] = math.nan
    return Dataset("broken", Examples(whole.train.inputs, targets), whole.test)


def test_a_loss_that_is_not_finite_stops_or_is_skipped_as_nan_policy_says():
    with pytest.raises(NumericFault, match="the loss is nan") as caught:
        started(lr=0.01, dataset=broken_data(), mini_batch_size=1).train_iter()
    assert torch.isnan(caught.value.batch.targets).tolist() == [True]
    algorithm = started(lr=0.01, dataset=broken_data(), mini_batch_size=1, nan_policy="skip")
    algorithm.train_iter()
    assert algorithm.progress.updates == algorithm.num_after_updates == 5
    assert algorithm.loop.updater.skipped == 1
    assert torch.isfinite(algorithm.slope)
