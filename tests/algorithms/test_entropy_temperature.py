from __future__ import annotations

from math import log

import numpy as np
import pytest
import torch

from alfish.algorithms.entropy_temperature import EntropyTemperature, default_target_entropy
from alfish.specs import BoundedTensorSpec


def test_loss_and_gradient() -> None:
    temperature = EntropyTemperature(target_entropy=-1.0, initial_log_alpha=0.5)
    loss = temperature.loss(torch.tensor([0.0, -3.0]))
    assert loss.tolist() == [0.5, -1.0]
    loss.sum().backward()
    assert temperature.log_alpha.grad.item() == -1.0


@pytest.mark.parametrize(("entropy", "direction"), [(0.2, -1), (-2.2, 1)])
def test_alpha_falls_above_the_target_and_rises_below(entropy: float, direction: int) -> None:
    temperature = EntropyTemperature(-1.0, 0.0)
    before = temperature.alpha().item()
    temperature.loss(torch.tensor(entropy, requires_grad=True)).backward()
    with torch.no_grad():
        temperature.log_alpha -= 0.1 * temperature.log_alpha.grad
    assert (temperature.alpha().item() - before) * direction > 0


def test_a_fixed_alpha_has_no_gradient() -> None:
    temperature = EntropyTemperature(-1.0, log(0.2), is_learned=False)
    assert not temperature.loss(torch.tensor(1.0)).requires_grad
    assert temperature.alpha().item() == pytest.approx(0.2)


def test_default_targets() -> None:
    unit = BoundedTensorSpec((3,), torch.float32, np.float32(-1), np.float32(1))
    wide = BoundedTensorSpec((2,), torch.float32, np.float32([-2, 0]), np.float32([2, 6]))
    free = BoundedTensorSpec((2,), torch.float32, np.float32(-np.inf), np.float32(np.inf))
    four = BoundedTensorSpec((), torch.int64, np.asarray(1), np.asarray(4))
    assert default_target_entropy(unit) == -3.0
    assert default_target_entropy(wide) == pytest.approx(log(2) + log(3) - 2)
    assert default_target_entropy(free) == -2.0
    expected = -(0.9 * log(0.9) + 3 * (0.1 / 3) * log(0.1 / 3))
    assert default_target_entropy(four) == pytest.approx(expected)
    assert default_target_entropy((unit, {"x": four})) == pytest.approx(expected - 3)
    assert default_target_entropy(()) == 0
