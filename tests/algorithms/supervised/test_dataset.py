from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish.algorithms.supervised.dataset import Dataset, Examples
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec, TensorSpec


def examples(number: int = 4, features: int = 3, targets: Any = None) -> Examples:
    return Examples(torch.rand(number, features), torch.arange(number) % 2 if targets is None else targets)


def problem(dataset: Dataset) -> str:
    with pytest.raises(ConfigError) as caught:
        dataset.check("my_data")
    return str(caught.value)


def test_taking_rows_keeps_inputs_and_targets_together():
    whole = Examples({"a": torch.arange(5.0)}, torch.arange(5))
    some = whole.take(torch.tensor([3, 1]))
    assert some.inputs["a"].tolist() == [3.0, 1.0]
    assert some.targets.tolist() == [3, 1]
    assert some.rows.tolist() == [3, 1]
    assert (len(whole), len(some)) == (5, 2)


def test_specs_are_those_of_one_example():
    dataset = Dataset("some", examples(), examples(targets=torch.tensor([0, 1, 2, 4])))
    assert dataset.input_spec == TensorSpec((3,))
    # A class that only the test data have is a class all the same.
    assert dataset.target_spec == BoundedTensorSpec((), torch.int64, minimum=0, maximum=4)
    numbers = examples(targets=torch.rand(4, 2))
    assert Dataset("numbers", numbers, numbers).target_spec == TensorSpec((2,))


def test_what_fits_is_accepted():
    Dataset("some", examples(), examples(7), torch.rand(2, 3)).check("my_data")
    Dataset("some", examples(targets=torch.rand(4)), examples(targets=torch.rand(4))).check("my_data")


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (Dataset("d", Examples(torch.rand(3, 2), torch.arange(4)), examples()), "train has 3 and 4 examples"),
        (Dataset("d", examples(0), examples()), "train is empty"),
        (Dataset("d", examples(), examples(features=2)), "test.inputs is TensorSpec(shape=(2,)"),
        (Dataset("d", examples(), examples(), torch.rand(3, 2)), "outliers is TensorSpec(shape=(2,)"),
        (Dataset("d", examples(), examples(), torch.rand(0, 3)), "outliers is empty"),
        (Dataset("d", examples(), examples(targets=torch.rand(4))), "test.targets is"),
        (Dataset("d", examples(targets=torch.tensor([0, 1, -1, 0])), examples()), "the class -1; classes count from 0"),
        (Dataset("d", examples(targets=torch.arange(4, dtype=torch.int32)), examples()), "classes are int64"),
        (Dataset("d", Examples(torch.full((2, 3), torch.inf), torch.arange(2)), examples()), "not finite"),
        (Dataset("d", Examples("images", torch.arange(2)), examples()), "must be tensors with the examples in front"),
    ],
)
def test_what_does_not_fit_is_told(dataset, words):
    told = problem(dataset)
    assert told.startswith("my_data: ")
    assert words in told
