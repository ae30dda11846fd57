from __future__ import annotations

import pytest
import torch

from alfish.optimizers import optimizer as optimizer_module
from alfish.optimizers.adam import Adam, AdamW
from alfish.progress import Progress
from tests.optimizers.test_optimizer import network, parameters, set_gradients, snapshot


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda: Adam(lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
        (
            lambda: Adam(lr=0.01, betas=(0.8, 0.9), eps=1e-5, weight_decay=0.1),
            lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.9), eps=1e-5, weight_decay=0.1),
        ),
        (lambda: AdamW(lr=0.01), lambda p: torch.optim.AdamW(p, lr=0.01)),
        (lambda: AdamW(lr=0.01, weight_decay=0.3), lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.3)),
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


def test_the_first_step_of_adam_is_the_learning_rate():
    module = network()
    before = snapshot(module)
    optimizer = Adam(lr=0.01)
    optimizer.add_parameters(parameters(module))
    set_gradients(module, seed=0)
    optimizer.step(Progress())
    torch.testing.assert_close((snapshot(module) - before).abs(), torch.full_like(before, 0.01), atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("make", [Adam, AdamW])
def test_devices_without_a_fused_kernel_take_the_same_steps(make, monkeypatch):
    fused, plain = network(), network()
    for module, devices in ((fused, {"cpu"}), (plain, set())):
        monkeypatch.setattr(optimizer_module, "_FUSED_DEVICES", devices)
        optimizer = make(lr=0.01, weight_decay=0.1)
        optimizer.add_parameters(parameters(module))
        for seed in range(5):
            set_gradients(module, seed)
            optimizer.step(Progress())
        assert {state["step"].item() for state in optimizer.state_dict().values()} == {5.0}
    torch.testing.assert_close(snapshot(fused), snapshot(plain), atol=1e-6, rtol=1e-6)
