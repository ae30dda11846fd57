"""Rows come back as they were written, wherever they lie in the ring."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alfish.errors import ConfigError
from alfish.replay.storage import RingStorage, flat_rows, row_layout
from alfish.specs import TensorSpec

COLUMNS = {"image": TensorSpec((2, 3), torch.uint8), "reward": TensorSpec(()), "flag": TensorSpec((), torch.bool)}


def block(length: int, envs: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(256, (length, envs, 2, 3), dtype=torch.uint8, generator=generator),
        torch.rand(length, envs, generator=generator),
        torch.rand(length, envs, generator=generator) > 0.5,
    ]


@pytest.mark.parametrize("start", [0, 2, 4, 9])
def test_a_block_comes_back_also_across_the_wrap(start: int) -> None:
    storage, values = RingStorage(COLUMNS, 2, 5), block(4, 2)
    storage.write(slice(None), values, start)
    rows = flat_rows(np.arange(2), start + np.arange(4)[:, None], 5)
    for read, written in zip(storage.gather(rows), values, strict=True):
        assert torch.equal(read, written)
        assert read.dtype == written.dtype


def test_some_environments_write_at_positions_of_their_own() -> None:
    storage, values = RingStorage(COLUMNS, 4, 5), block(3, 2)
    storage.write(slice(None), values, np.array([4, 1]), np.array([3, 0]))
    assert torch.equal(storage.read(1, flat_rows(np.array(3), np.arange(4, 7), 5)), values[1][:, 0])
    assert torch.equal(storage.read(1, flat_rows(np.array(0), np.arange(1, 4), 5)), values[1][:, 1])
    assert not storage.read(1, flat_rows(np.array([[1], [2]]), np.arange(5), 5)).any()


def test_a_part_of_the_columns_can_be_written() -> None:
    storage, values = RingStorage(COLUMNS, 1, 5), block(2, 1)
    storage.write(slice(1, None), values[1:], 0)
    assert not storage.read(0, np.arange(2)).any()
    assert torch.equal(storage.read(2, np.arange(2)), values[2][:, 0])


def test_what_was_gathered_does_not_change_with_the_storage() -> None:
    storage = RingStorage(COLUMNS, 1, 2)
    read = storage.gather(np.arange(2))[1]
    storage.write(slice(None), block(2, 1), 0)
    assert not read.any()


def test_a_row_takes_little_more_than_its_columns() -> None:
    assert row_layout({"image": TensorSpec((84, 84), torch.uint8), "env": TensorSpec((), torch.int64)}).itemsize == 7064
    assert RingStorage(COLUMNS, 3, 5).nbytes == 3 * 5 * row_layout(COLUMNS).itemsize


def test_a_dtype_that_cannot_be_stored_is_named_with_its_leaf() -> None:
    with pytest.raises(ConfigError, match=r"cannot store 1\.logits of torch\.bfloat16.*torch\.float32"):
        row_layout({"1.logits": TensorSpec((), torch.bfloat16)})
