"""Rows come back as they were written, wherever they lie in the ring."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch

from alfish.errors import ConfigError
from alfish.replay import storage as storage_module
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
    storage.write(values, start)
    rows = flat_rows(np.arange(2), start + np.arange(4)[:, None], 5)
    for read, written in zip(storage.gather(rows), values, strict=True):
        assert torch.equal(read, written)
        assert read.dtype == written.dtype


def test_some_environments_write_at_positions_of_their_own() -> None:
    storage, values = RingStorage(COLUMNS, 4, 5), block(3, 2)
    storage.write(values, np.array([4, 1]), np.array([3, 0]))
    assert torch.equal(storage.read(1, flat_rows(np.array(3), np.arange(4, 7), 5)), values[1][:, 0])
    assert torch.equal(storage.read(1, flat_rows(np.array(0), np.arange(1, 4), 5)), values[1][:, 1])
    assert not storage.read(1, flat_rows(np.array([[1], [2]]), np.arange(5), 5)).any()


@pytest.mark.parametrize("largest_packed", [0, 2**18])
def test_columns_may_come_without_the_last_row_which_the_next_write_completes(
    largest_packed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "_LARGEST_PACKED", largest_packed)
    storage, values = RingStorage(COLUMNS, 1, 7), block(7, 1)
    for first in (0, 2, 4):
        image, *others = [value[first : first + 3] for value in values]
        storage.write([image, *(value[:2] for value in others)], first)
    assert torch.equal(storage.read(0, np.arange(7)), values[0][:, 0])
    assert torch.equal(storage.read(2, np.arange(6)), values[2][:6, 0])


def test_rows_that_are_packed_first_arrive_as_columns_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    by_column, packed, generator = RingStorage(COLUMNS, 4, 7), RingStorage(COLUMNS, 4, 7), np.random.default_rng(0)
    for seed in range(200):  # more shapes than are kept
        length, num_envs = generator.integers(1, 7), generator.integers(1, 5)
        start: np.ndarray | int = int(generator.integers(100))
        env_ids = None if num_envs == 4 and seed % 2 else generator.permutation(4)[:num_envs]
        if env_ids is not None and seed % 3:
            start = generator.integers(0, 100, num_envs)
        values = block(length, num_envs, seed)
        for storage, largest in ((by_column, 0), (packed, 2**18)):
            monkeypatch.setattr(storage_module, "_LARGEST_PACKED", largest)
            storage.write(values, start, env_ids)
        for left, right in zip(by_column.gather(np.arange(28)), packed.gather(np.arange(28)), strict=True):
            assert torch.equal(left, right)
    assert not by_column._blocks
    assert 1 < len(packed._blocks) <= storage_module._MOST_BLOCKS


def test_what_was_written_does_not_keep_its_graph_alive() -> None:
    storage, (image, reward, flag) = RingStorage(COLUMNS, 2, 5), block(2, 2)
    parameter = torch.ones((), requires_grad=True)
    storage.write([image, reward * parameter, flag], 0)
    assert torch.equal(storage.read(1, np.array([0, 1])), reward[:, 0])
    alive = weakref.ref(parameter)
    del parameter
    assert alive() is None


def test_what_was_first_written_in_inference_mode_is_written_anywhere() -> None:
    storage, values = RingStorage(COLUMNS, 2, 5), block(2, 2)
    with torch.inference_mode():
        storage.write(block(2, 2, seed=1), 0)
    storage.write(values, 0)
    assert torch.equal(storage.read(1, np.array([0, 1])), values[1][:, 0])


def test_what_was_gathered_does_not_change_with_the_storage() -> None:
    storage = RingStorage(COLUMNS, 1, 2)
    read = storage.gather(np.arange(2))[1]
    storage.write(block(2, 1), 0)
    assert not read.any()


def test_a_row_takes_little_more_than_its_columns() -> None:
    assert row_layout({"image": TensorSpec((84, 84), torch.uint8), "env": TensorSpec((), torch.int64)}).itemsize == 7064
    assert RingStorage(COLUMNS, 3, 5).nbytes == 3 * 5 * row_layout(COLUMNS).itemsize


def test_a_dtype_that_cannot_be_stored_is_named_with_its_leaf() -> None:
    with pytest.raises(ConfigError, match=r"cannot store 1\.logits of torch\.bfloat16.*torch\.float32"):
        row_layout({"1.logits": TensorSpec((), torch.bfloat16)})


@pytest.mark.parametrize("num_envs", [1, 3])
def test_steps_arrive_as_blocks_do(num_envs: int) -> None:
    in_blocks, in_steps, values = (
        RingStorage(COLUMNS, num_envs, 5),
        RingStorage(COLUMNS, num_envs, 5),
        block(9, num_envs),
    )
    in_steps.write([values[0][:1], *(value[:0] for value in values[1:])], 0)
    for position in range(8):  # round the ring
        image, *others = [value[position : position + 2] for value in values]
        in_blocks.write([image, *(value[:1] for value in others)], position)
        in_steps.write_step([image[1], *(value[0] for value in others)], position, num_next=1)
        everything = np.arange(5 * num_envs)
        complete = flat_rows(np.arange(num_envs)[:, None], np.arange(max(0, position - 3), position + 1), 5).ravel()
        assert torch.equal(in_steps.read(0, everything), in_blocks.read(0, everything))
        for column in (1, 2):
            assert torch.equal(in_steps.read(column, complete), in_blocks.read(column, complete))


def test_steps_are_written_into_place_only_where_rows_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "_LARGEST_PACKED", 2 * 2 * row_layout(COLUMNS).itemsize)
    assert RingStorage(COLUMNS, 2, 5).writes_steps
    assert not RingStorage(COLUMNS, 3, 5).writes_steps
