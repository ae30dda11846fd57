from __future__ import annotations

import pytest
import torch

from alfish.errors import ConfigError
from alfish.optimizers import optimizer as optimizer_module
from alfish.optimizers.adam import Adam
from alfish.optimizers.sgd import SGD, RMSprop
from alfish.progress import Progress
from tests.optimizers.test_optimizer import network, parameters, set_gradients, snapshot


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda: SGD(lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
        (
            lambda: SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        ),
        (lambda: RMSprop(lr=0.01), lambda p: torch.optim.RMSprop(p, lr=0.01)),
        (
            lambda: RMSprop(lr=0.01, alpha=0.9, eps=1e-5, momentum=0.5, weight_decay=0.1),
            lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-5, momentum=0.5, weight_decay=0.1),
        ),
    ],
)
def test_steps_are_those_of_torch(ours, theirs):
    module, reference = network(), network()
    optimizer = ours()
    optimizer.add_parameters(parameters(module))
    torch_optimizer = theirs(reference.parameters())
    for seed in range(5):
        set_gradients(module, seed)
        set_gradients(reference, seed)
        optimizer.step(Progress())
        torch_optimizer.step()
    torch.testing.assert_close(snapshot(module), snapshot(reference), atol=1e-6, rtol=1e-6)


def test_nesterov_needs_momentum():
    with pytest.raises(ConfigError, match=r"SGD.momentum is 0"):
        SGD(nesterov=True)


@pytest.mark.parametrize("make", [lambda: SGD(lr=0.1, momentum=0.9), lambda: Adam(lr=0.1)])
def test_devices_without_fused_kernels_take_the_same_steps(make, monkeypatch):
    results = []
    for devices in (frozenset({"cpu"}), frozenset()):
        monkeypatch.setattr(optimizer_module, "_FUSED_DEVICES", devices)
        module, optimizer = network(), make()
        optimizer.add_parameters(parameters(module))
        for seed in range(3):
            set_gradients(module, seed)
            optimizer.step(Progress())
        results.append(snapshot(module))
    torch.testing.assert_close(*results, atol=1e-6, rtol=1e-6)
