from __future__ import annotations

from functools import partial

import pytest
import torch

from alfish.algorithms.supervised.toy_data import blobs, segment_digits


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


MAKERS = pytest.mark.parametrize("make", [segment_digits, blobs])


@MAKERS
def test_sizes_are_as_asked_for_and_classes_are_balanced(make):
    data = make(generator(), num_train=40, num_test=30, num_outliers=7)
    data.check("data")
    assert (len(data.train), len(data.test), len(data.outliers)) == (40, 30, 7)
    assert data.train.targets.bincount().unique().numel() == 1


@MAKERS
def test_the_same_stream_gives_the_same_data_and_test_data_are_new_ones(make):
    one, same, other = make(generator()), make(generator()), make(generator(1))
    assert torch.equal(one.train.inputs, same.train.inputs)
    assert not torch.equal(one.train.inputs, other.train.inputs)
    assert not torch.equal(one.train.inputs, one.test.inputs)


def picture(make, row: int) -> list[str]:
    data = make(generator(), noise=0.0)
    inputs = (data.train.inputs if row >= 0 else data.outliers)[abs(row)]
    assert 0.5 <= inputs.max() <= 1.0
    return ["".join("#" if pixel > 0 else "." for pixel in line) for line in inputs.reshape(7, 5)]


def test_digits_look_like_digits_and_outliers_like_letters():
    assert picture(segment_digits, 4) == [".....", "#...#", "#...#", ".###.", "....#", "....#", "....."]
    assert picture(segment_digits, -7) == [".....", "#....", "#....", ".....", "#....", "#....", ".###."]  # L


def test_no_letter_looks_like_a_digit():
    data = segment_digits(generator(), noise=0.0)
    lit = (data.train.inputs[:10] > 0), (data.outliers[:10] > 0)
    assert (lit[0][:, None] != lit[1]).any(-1).all()
    assert len(lit[0].unique(dim=0)) == len(lit[1].unique(dim=0)) == 10


def test_blobs_lie_around_their_centres_and_outliers_around_another_one():
    make = partial(blobs, num_classes=3, num_features=4, noise=0.01, num_train=300)
    data = make(generator())
    assert data.train.inputs.shape == (300, 4)
    centres = torch.stack([data.train.inputs[data.train.targets == number].mean(0) for number in range(3)])
    spread = (data.train.inputs - centres[data.train.targets]).std()
    assert spread.item() == pytest.approx(0.01, rel=0.1)
    assert (data.outliers - data.outliers.mean(0)).std().item() == pytest.approx(0.01, rel=0.1)
    assert torch.cdist(data.outliers, centres).min() > 0.5
