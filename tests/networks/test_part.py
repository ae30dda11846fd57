"""Parts of networks: cheap to call, and modules like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.modules import module as torch_module

from alfish.networks.part import Part


class Doubling(Part):
    def forward(self, x: torch.Tensor, times: int = 1) -> torch.Tensor:
        return x * 2 * times


def test_a_call_is_forward() -> None:
    torch.testing.assert_close(Doubling()(torch.ones(2), times=3), torch.full((2,), 6.0))


@pytest.mark.parametrize(
    "register",
    [
        lambda part, hook: part.register_forward_hook(hook),
        lambda part, hook: part.register_forward_pre_hook(hook),
        lambda part, hook: part.register_full_backward_hook(hook),
        lambda part, hook: part.register_full_backward_pre_hook(hook),
        lambda part, hook: torch_module.register_module_forward_hook(hook),
        lambda part, hook: torch_module.register_module_forward_pre_hook(hook),
        lambda part, hook: torch_module.register_module_full_backward_hook(hook),
        lambda part, hook: torch_module.register_module_full_backward_pre_hook(hook),
    ],
    ids=["forward", "forward_pre", "backward", "backward_pre", *(f"global{n}" for n in range(4))],
)
def test_hooks_are_called_until_they_are_removed(register: Callable[[Any, Any], Any]) -> None:
    part, calls = Doubling(), list[object]()

    def run() -> None:
        part(torch.ones(2, requires_grad=True)).sum().backward()

    handle = register(part, lambda *seen: calls.append(seen[0]))
    run()
    assert calls == [part]
    handle.remove()
    run()
    assert calls == [part]


def test_a_module_that_is_compiled_in_place_calls_what_was_compiled() -> None:
    part = Doubling()
    part._compiled_call_impl = lambda x: x + 1  # as `part.compile()` does
    torch.testing.assert_close(part(torch.ones(2)), torch.full((2,), 2.0))
