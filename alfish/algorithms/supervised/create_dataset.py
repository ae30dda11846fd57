"""The data of a supervised run, as `create_environment` is for one with environments."""

from __future__ import annotations

from collections.abc import Callable

from alfish.algorithms.supervised.dataset import Dataset
from alfish.algorithms.supervised.toy_data import segment_digits
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.seeding import Seeds


@configurable
def create_dataset(seeds: Seeds, data_ctor: Callable[..., Dataset] = segment_digits) -> Dataset:
    """The data of a run with `TrainerConfig.ml_type = 'sl'`.

    Own data come from a function of one's own, in a module that the .gin file imports:

        @alfish.configurable
        def my_data(generator: torch.Generator) -> Dataset:
            return Dataset("mine", train=Examples(x, y), test=Examples(x_test, y_test), outliers=x_other)

        create_dataset.data_ctor = @my_data

    Args:
        seeds: of the run.
        data_ctor: called with `generator`, a random stream of the run; returns a `Dataset`.
    """
    dataset = data_ctor(generator=seeds.torch("data"))
    maker = "create_dataset.data_ctor"
    if not isinstance(dataset, Dataset):
        raise ConfigError(f"{maker} returned a {type(dataset).__name__}, not an alfish Dataset(name, train, test)")
    dataset.check(f"{maker} ({dataset.name})")
    return dataset
