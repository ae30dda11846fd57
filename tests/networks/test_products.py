"""Products by oneDNN are those of `F.linear`, with their gradients, and are taken where they pay."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from alfish.networks import product_layers, products
from alfish.networks.ensemble import Ensemble
from alfish.networks.layers import DenseLayer, DenseStack, OutputLayer
from alfish.networks.noisy import NoisyLinear
from alfish.networks.products import linear, onednn_linear, onednn_pays, onednn_product
from alfish.networks.q import QNetwork
from alfish.specs import BoundedTensorSpec, TensorSpec

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
GENERATOR = torch.Generator().manual_seed(0)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """Of which shapes products were taken, as on a processor of another maker, and also where they do not pay."""
    shapes: list[torch.Size] = []

    def noted(*arguments: Any) -> torch.Tensor:
        answer = onednn_product(*arguments)
        shapes.append(answer.shape)
        return answer

    monkeypatch.setattr(products, "_IS_FASTER", True)
    monkeypatch.setattr(products, "_LEAST", 0)
    monkeypatch.setattr(products, "onednn_product", noted)
    monkeypatch.setattr(product_layers, "onednn_product", noted)
    return shapes


LAYOUTS = {
    "dense": lambda x: x,
    "transposed": lambda x: x.t().contiguous().t(),
    "with gaps": lambda x: torch.cat([x, x], 1)[:, : x.size(1)],
    "repeated": lambda x: x[:1].expand_as(x),
}


@pytest.mark.parametrize("weights", LAYOUTS)
@pytest.mark.parametrize("inputs", LAYOUTS)
def test_the_numbers_and_gradients_are_those_of_torch(inputs: str, weights: str) -> None:
    x, weight, bias = LAYOUTS[inputs](numbers(9, 5)), LAYOUTS[weights](numbers(7, 5)), numbers(7)
    factor = numbers(9, 7)
    results = []
    for function in (F.linear, onednn_linear):
        leaves = [each.detach().requires_grad_() for each in (x, weight, bias)]
        answer = function(*leaves)
        results.append([answer, *torch.autograd.grad((answer * factor).sum(), leaves)])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride() or found.is_contiguous()


def test_gradients_of_gradients() -> None:
    x, weight, bias = numbers(4, 3), numbers(2, 3), numbers(2)

    def second(function: object) -> list[torch.Tensor]:
        leaves = [each.clone().requires_grad_() for each in (x, weight, bias)]
        (gradient,) = torch.autograd.grad(function(*leaves).tanh().sum(), leaves[0], create_graph=True)  # type: ignore[operator]
        return list(torch.autograd.grad(gradient.square().sum(), leaves))

    for found, expected in zip(second(onednn_linear), second(F.linear), strict=True):
        torch.testing.assert_close(found, expected)


def test_only_gradients_that_are_asked_for_are_computed(taken: list[torch.Size]) -> None:
    x, weight, bias = numbers(4, 3), numbers(2, 3).requires_grad_(), numbers(2)
    linear(x, weight, bias).sum().backward()
    assert taken == [(4, 2), (2, 3)]
    taken.clear()
    with torch.no_grad():
        linear(x, weight, bias)
    assert taken == [(4, 2)]


def test_the_same_call_gives_the_same_bits() -> None:
    x, weight, bias = numbers(256, 256), numbers(256, 256), numbers(256)
    assert torch.equal(onednn_linear(x, weight, bias), onednn_linear(x.clone(), weight.clone(), bias.clone()))


def test_it_pays_for_large_products_of_float32_on_a_processor_of_another_maker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_IS_FASTER", True)
    x, weight = torch.zeros(256, 256), torch.zeros(256, 256)
    assert onednn_pays(x, weight)
    assert onednn_pays(torch.zeros(2, 256, 256), torch.zeros(3, 256, 256))  # copies in front
    assert not onednn_pays(torch.zeros(8, 256), weight)
    assert not onednn_pays(torch.zeros(256), weight)
    assert not onednn_pays(torch.zeros(2, 256, 256), weight)
    assert not onednn_pays(x.double(), weight.double())
    assert not onednn_pays(x.bfloat16(), weight)
    assert not onednn_pays(x.to("meta"), weight)
    with torch.autocast("cpu"):
        assert not onednn_pays(x, weight)
    torch._C._set_mkldnn_enabled(False)
    try:
        assert not onednn_pays(x, weight)
    finally:
        torch._C._set_mkldnn_enabled(True)
    assert torch.func.vmap(lambda row: torch.tensor(onednn_pays(x, weight)) | (row[0] > 0))(x)[0].item() is False
    monkeypatch.setattr(products, "_IS_FASTER", False)
    assert not onednn_pays(x, weight)


@pytest.mark.parametrize(
    ("maker", "capability", "expected"),
    [
        ("AuthenticAMD", "AVX512", True),
        ("GenuineIntel", "AVX512", False),
        ("AuthenticAMD", "AVX2", False),
        ("", "AVX512", False),
    ],
)
def test_who_has_512_bits_that_mkl_leaves_alone(
    maker: str, capability: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        pytest.skip("needs MKL")
    monkeypatch.setattr(products, "_maker", lambda: maker)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert products._is_faster() is expected


def results(module: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """What it gives, and all gradients."""
    answer = module(x)
    answer = answer[0] if isinstance(answer, tuple) else answer
    return [answer, *torch.autograd.grad(answer.square().sum(), [x, *module.parameters()])]


def q_network() -> QNetwork:
    return QNetwork(TensorSpec((6,)), BoundedTensorSpec((), torch.int64, 0, 3), fc_layer_params=(8, 5))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: DenseStack(6, [DenseLayer(8, torch.relu_), DenseLayer(5, torch.tanh)]), [(9, 8), (9, 5)]),
        (lambda: DenseStack(6, [DenseLayer(8, torch.relu_, layer_norm=True)]), [(9, 8)]),
        (lambda: OutputLayer(6, 4, None, 1.0), [(9, 4)]),
        (lambda: NoisyLinear(6, 4), [(9, 4)]),
        (lambda: Ensemble(q_network, 2), [(9, 8), (9, 5), (9, 8), (9, 5)]),
    ],
)
def test_layers_take_them_and_give_the_same(
    make: object, expected: list[tuple[int, ...]], taken: list[torch.Size], monkeypatch: pytest.MonkeyPatch
) -> None:
    module: torch.nn.Module = make()  # type: ignore[operator]
    x = numbers(9, 6).requires_grad_()
    found = results(module, x)
    assert taken[: len(expected)] == expected
    assert len(taken) >= 2 * len(expected)  # backwards as well
    taken.clear()
    monkeypatch.setattr(products, "_IS_FASTER", False)
    for one, other in zip(found, results(module, x), strict=True):
        torch.testing.assert_close(one, other)
    assert not taken


def test_the_first_copies_of_an_ensemble(taken: list[torch.Size]) -> None:
    ensemble, x = Ensemble(q_network, 3), numbers(4, 2, 6)
    values, _ = ensemble.unroll(x, number=2)
    assert values.shape == (2, 4, 2, 4)
    assert len(taken) == 4
    every, _ = ensemble.unroll(x)
    torch.testing.assert_close(values, every[:2])
