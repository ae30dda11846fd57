from __future__ import annotations

from typing import Any

import pytest
import torch

from alfish.algorithms.supervised.create_dataset import create_dataset
from alfish.algorithms.supervised.dataset import Dataset, Examples
from alfish.errors import ConfigError
from alfish.seeding import Seeds


def my_data(generator: torch.Generator) -> Dataset:
    part = Examples(torch.rand(4, 2, generator=generator), torch.arange(4))
    return Dataset("mine", part, part)


def test_data_are_a_function_of_the_seed_of_the_run():
    one, same, other = (create_dataset(Seeds(seed), data_ctor=my_data).train.inputs for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_without_a_choice_there_are_data():
    assert create_dataset(Seeds(0)).name == "segment_digits"


def test_what_is_no_dataset_is_refused():
    tensors: Any = lambda generator: (torch.zeros(3, 2), torch.zeros(3))  # noqa: E731
    with pytest.raises(ConfigError, match=r"create_dataset\.data_ctor returned a tuple, not an alfish Dataset"):
        create_dataset(Seeds(0), data_ctor=tensors)


def test_data_that_do_not_fit_together_are_refused_with_their_name():
    part = Examples(torch.zeros(3, 2), torch.zeros(2))
    with pytest.raises(ConfigError, match=r"create_dataset.data_ctor \(odd\): train has 2 and 3 examples"):
        create_dataset(Seeds(0), data_ctor=lambda generator: Dataset("odd", part, part))
