from __future__ import annotations

import pytest
import torch
from torch import nn

from alfish.algorithms.target_update import TargetUpdater


def networks() -> tuple[nn.Linear, nn.Linear]:
    return nn.Linear(3, 2), nn.Linear(3, 2)


def test_the_target_starts_as_a_copy_without_gradient() -> None:
    source, target = networks()
    TargetUpdater(source, target, 0.1, 1)
    assert torch.equal(source.weight, target.weight)
    assert not target.weight.requires_grad
    assert source.weight.requires_grad


def test_soft_steps() -> None:
    source, target = networks()
    updater = TargetUpdater(source, target, 0.25, 1)
    old = target.weight.clone()
    with torch.no_grad():
        source.weight.add_(8.0)
    updater.step()
    torch.testing.assert_close(target.weight, old + 2.0)
    updater.step()
    torch.testing.assert_close(target.weight, old + 3.5)


def test_copies_every_so_often() -> None:
    source, target = networks()
    updater = TargetUpdater(source, target, 1.0, 3)
    equal = []
    for _ in range(7):
        with torch.no_grad():
            source.weight.add_(1.0)
        updater.step()
        equal.append(torch.equal(source.weight, target.weight))
    assert equal == [False, False, True, False, False, True, False]


def test_the_count_is_kept_and_the_networks_are_not_stored_twice() -> None:
    source, target = networks()
    updater = TargetUpdater(source, target, 1.0, 3)
    updater.step()
    resumed = TargetUpdater(source, target, 1.0, 3)
    resumed.load_state_dict(updater.state_dict())
    with torch.no_grad():
        source.weight.add_(1.0)
    resumed.step()
    assert not torch.equal(source.weight, target.weight)
    resumed.step()
    assert torch.equal(source.weight, target.weight)
    assert list(updater.state_dict()) == ["num_steps"]


def test_networks_of_another_structure_are_refused() -> None:
    with pytest.raises(RuntimeError, match="size mismatch"):
        TargetUpdater(nn.Linear(3, 2), nn.Linear(3, 1), 1.0, 1)


def test_it_says_when_the_next_step_moves_the_target() -> None:
    updater = TargetUpdater(*networks(), 1.0, 3)
    due = []
    for _ in range(6):
        due.append(updater.is_due)
        updater.step()
    assert due == [False, False, True, False, False, True]
    assert TargetUpdater(*networks()).is_due


def test_buffers_are_copied_with_the_parameters() -> None:
    source, target = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    updater = TargetUpdater(source, target, 0.5, 1)
    source(torch.tensor([[1.0, 2.0], [3.0, 8.0]]))
    updater.step()
    assert torch.equal(target.running_mean, source.running_mean)
    assert source.running_mean.tolist() == pytest.approx([0.2, 0.5])


def test_the_count_survives_a_load_that_does_not_hold_it() -> None:
    updater = TargetUpdater(*networks(), 1.0, 3)
    updater.step()
    updater.step()
    updater.load_state_dict({}, strict=False)
    assert updater.is_due
    assert updater.state_dict()["num_steps"].item() == 2
