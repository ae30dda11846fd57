"""Stacks of layers by oneDNN give what the layers one by one give, with their gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from alfish.networks.product_layers import ONEDNN_NAMES, onednn_layers

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
GENERATOR = torch.Generator().manual_seed(0)
NAMES = sorted(ONEDNN_NAMES.values())


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR)


def leaves(copies: tuple[int, ...], sizes: tuple[int, ...]) -> list[torch.Tensor]:
    """Of inputs, weights and biases."""
    pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
    weights = [numbers(*copies, out, into) / into**0.5 for out, into in pairs]
    biases = [numbers(*copies, out) for out, _ in pairs]
    return [leaf.requires_grad_() for leaf in (numbers(*copies, 9, sizes[0]), *weights, *biases)]


def stacked(inputs: list[torch.Tensor], names: list[str]) -> torch.Tensor:
    x, *parameters = inputs
    return onednn_layers(x, parameters[: len(names)], parameters[len(names) :], names)


def one_by_one(inputs: list[torch.Tensor], names: list[str]) -> torch.Tensor:
    x, *parameters = inputs
    if x.dim() == 3:
        return torch.stack([one_by_one(list(copy), names) for copy in zip(*inputs, strict=True)])
    for name, weight, bias in zip(names, parameters, parameters[len(names) :], strict=False):
        x = getattr(torch, name)(F.linear(x, weight, bias))
    return x


def assert_all_close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
        assert one.shape == other.shape


@pytest.mark.parametrize("names", [[NAMES[0]], [NAMES[1]], NAMES, [*NAMES, *NAMES]], ids="-".join)
@pytest.mark.parametrize("copies", [(), (1,), (3,)], ids=str)
@pytest.mark.parametrize("wanted", ["all", "inputs", "parameters", "one weight"])
def test_outputs_and_gradients(names: list[str], copies: tuple[int, ...], wanted: str) -> None:
    inputs = leaves(copies, (5, 8, 4, 6, 7)[: len(names) + 1])
    parts = {"all": inputs, "inputs": inputs[:1], "parameters": inputs[1:], "one weight": inputs[1:2]}
    for leaf in inputs:
        leaf.requires_grad_(any(leaf is each for each in parts[wanted]))
    found, expected = stacked(inputs, names), one_by_one(inputs, names)
    factor = torch.randn_like(expected)
    assert_all_close([found], [expected])
    gradients = [torch.autograd.grad((each * factor).sum(), parts[wanted]) for each in (found, expected)]
    assert_all_close(*map(list, gradients))
    assert all(each.is_contiguous() for each in gradients[0])
    with torch.no_grad():
        assert torch.equal(stacked(inputs, names), found)


def test_copies_that_see_the_same() -> None:
    x, *parameters = leaves((3,), (5, 8, 4))
    same = x[0].detach().requires_grad_()
    results = [
        torch.autograd.grad(way([same.expand(3, 9, 5), *parameters], NAMES).square().sum(), [same, *parameters])
        for way in (stacked, one_by_one)
    ]
    assert_all_close(*map(list, results))


@pytest.mark.parametrize("copies", [(), (3,)], ids=str)
def test_gradients_of_gradients(copies: tuple[int, ...]) -> None:
    inputs = leaves(copies, (5, 8, 4))

    def penalty(output: torch.Tensor) -> list[torch.Tensor]:
        (gradient,) = torch.autograd.grad(output.square().sum(), inputs[:1], create_graph=True)
        return list(torch.autograd.grad(gradient.square().sum(), inputs))

    assert_all_close(penalty(stacked(inputs, NAMES)), penalty(one_by_one(inputs, NAMES)))
