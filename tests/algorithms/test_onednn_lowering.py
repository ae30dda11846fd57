from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from alfish.algorithms.compilation import compile_graph
from alfish.networks import products
from alfish.networks.activations import Activation, elu, relu, tanh
from alfish.networks.ensemble import Ensemble
from alfish.networks.products import onednn_linear
from alfish.networks.q import QNetwork
from alfish.specs import BoundedTensorSpec, TensorSpec

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
GENERATOR = torch.Generator().manual_seed(0)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR)


def test_weights_that_change_and_transposed_ones() -> None:
    weight = numbers(4, 3)

    def function(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        x, other, bias = inputs
        return [onednn_linear(x, weight, bias).relu(), onednn_linear(x.t(), other.t(), None), onednn_linear(x, x, None)]

    inputs = [numbers(5, 3), numbers(5, 6), numbers(4)]
    graph = compile_graph(function, inputs)
    for _ in range(2):
        x, other, bias = inputs
        expected = [F.linear(x, weight, bias).relu(), x.t() @ other, x @ x.t()]
        for found, wanted in zip(graph(inputs), expected, strict=True):
            torch.testing.assert_close(found, wanted)
        weight.neg_()


@pytest.mark.parametrize(("threads", "activation"), [(1, relu), (2, relu), (1, tanh), (1, elu)])
def test_a_whole_update_of_an_ensemble(threads: int, activation: Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    action_spec = BoundedTensorSpec((), torch.int64, 0, 3)
    sizes = {"fc_layer_params": (40, 33), "activation": activation}
    ensemble = Ensemble(lambda: QNetwork(TensorSpec((6,)), action_spec, **sizes), 2)
    parameters = list(ensemble.parameters())

    def gradients(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        values, _ = ensemble(inputs[0])
        return list(torch.autograd.grad(values.square().mean(), parameters))

    x = numbers(50, 6)
    expected = gradients([x])
    monkeypatch.setattr(products, "_IS_FASTER", True)
    monkeypatch.setattr(products, "_LEAST", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        graph = compile_graph(gradients, [x])
        for found, wanted in zip(graph([x]), expected, strict=True):
            torch.testing.assert_close(found, wanted)
    finally:
        torch.set_num_threads(before)
