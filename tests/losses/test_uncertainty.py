from __future__ import annotations

from math import log

import pytest
import torch

from alfish.losses.uncertainty import calibration_error, entropy, mutual_information, predictive_entropy, separation

SURE, OTHER, TORN = [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]


def test_entropy_is_zero_when_sure_and_log_c_when_every_class_is_as_likely():
    torch.testing.assert_close(entropy(torch.tensor([SURE, TORN])), torch.tensor([0.0, log(2)]))
    torch.testing.assert_close(entropy(torch.full((5,), 0.2)), torch.tensor(log(5)))


def test_the_entropy_of_an_ensemble_is_that_of_its_mean():
    members = torch.tensor([[SURE, TORN, SURE], [SURE, TORN, OTHER]])
    torch.testing.assert_close(predictive_entropy(members), torch.tensor([0.0, log(2), log(2)]))


def test_members_that_are_torn_alike_do_not_disagree_and_sure_ones_of_two_minds_do():
    members = torch.tensor([[SURE, TORN, SURE], [SURE, TORN, OTHER]])
    torch.testing.assert_close(mutual_information(members), torch.tensor([0.0, 0.0, log(2)]))
    skewed = torch.tensor([[[0.9, 0.1]], [[0.6, 0.4]]])
    mean_of_entropies = -(0.9 * log(0.9) + 0.1 * log(0.1) + 0.6 * log(0.6) + 0.4 * log(0.4)) / 2
    expected = -(0.75 * log(0.75) + 0.25 * log(0.25)) - mean_of_entropies
    torch.testing.assert_close(mutual_information(skewed), torch.tensor([expected]))


def test_disagreement_is_never_below_zero():
    members = torch.rand(1, 1000, 3).softmax(-1).expand(7, -1, -1)
    assert (mutual_information(members) >= 0).all()


def test_calibration_compares_confidence_and_accuracy_bin_by_bin():
    confidence = torch.tensor([0.95, 0.95, 0.65, 0.62])
    is_right = torch.tensor([True, True, False, False])
    # The bin from 0.9 has 2 * 0.05 too little confidence, that from 0.6 has 1.27 too much: their sum over 4 examples.
    assert calibration_error(confidence, is_right).item() == pytest.approx((0.1 + 1.27) / 4)
    assert calibration_error(torch.ones(3), torch.ones(3, dtype=torch.bool)).item() == 0.0
    assert calibration_error(confidence, is_right, num_bins=1).item() == pytest.approx(abs(-0.1 + 1.27) / 4)


def test_separation_is_the_chance_that_the_unusual_is_above_the_usual():
    assert separation(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0])).item() == 1.0
    assert separation(torch.tensor([2.0, 3.0]), torch.tensor([0.0, 1.0])).item() == 0.0
    assert separation(torch.tensor([5.0, 5.0]), torch.tensor([5.0])).item() == 0.5
    # Of the four pairs (1, 2), (1, 0), (3, 2), (3, 0) one has the unusual above.
    assert separation(torch.tensor([3.0, 1.0]), torch.tensor([2.0, 0.0])).item() == 0.25
