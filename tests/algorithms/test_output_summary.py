from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from alfish.algorithms.output_summary import summarized_output
from alfish.networks.actor import ActorNetwork
from alfish.networks.ensemble import Ensemble
from alfish.networks.network import unroll_network
from alfish.networks.recurrent import LSTMEncodingNetwork
from alfish.networks.value import ValueNetwork
from alfish.progress import Progress
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.summary.summary import Summary

INPUT = TensorSpec((3,))
ACTION = BoundedTensorSpec((2,), minimum=-1.0, maximum=1.0)
IMAGE = TensorSpec((1, 8, 8))


class Both(nn.Module):
    """Two networks, as an algorithm has them."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = ActorNetwork(INPUT, ACTION, fc_layer_params=(5, 4))
        self.value = ValueNetwork(INPUT, fc_layer_params=(4,))


def new_summary() -> Summary:
    summary = Summary([], Progress())
    summary.enabled = True
    return summary


def tags(algorithm: nn.Module, run: Any) -> dict[str, float]:
    summary = new_summary()
    with summarized_output(algorithm, summary):
        run()
    return summary.write()


def layers(written: dict[str, float]) -> set[str]:
    assert {tag.rpartition("/")[2] for tag in written} <= {"mean", "std"}
    return {tag.rpartition("/")[0].removeprefix("Output/") for tag in written}


def test_every_layer_is_summarized():
    both = Both()
    written = tags(both, lambda: (both.actor(torch.ones(6, 3)), both.value(torch.ones(6, 3))))
    assert layers(written) == {
        "actor._encoding._dense.layers.0",
        "actor._encoding._dense.layers.1",
        "actor._head._layers._output",
        "actor._head._layers._squash",
        "value._encoding._dense.layers.0",
        "value._head._output",
    }


def test_the_numbers_are_those_of_the_outputs():
    both, inputs = Both(), torch.randn(6, 3)
    written = tags(both, lambda: both.actor(inputs))
    action, _ = both.actor(inputs)
    hidden = torch.relu(both.actor._encoding._dense.layers[0](inputs))
    squash, first = "Output/actor._head._layers._squash", "Output/actor._encoding._dense.layers.0"
    assert written[f"{squash}/mean"] == pytest.approx(action.mean().item())
    assert written[f"{squash}/std"] == pytest.approx(action.std(correction=0).item())
    assert written[f"{first}/mean"] == pytest.approx(hidden.mean().item())


def test_passes_without_gradient_do_not_count():
    both = Both()
    assert tags(both, torch.no_grad()(lambda: both.actor(torch.ones(6, 3)))) == {}


def test_layers_are_free_afterwards():
    both = Both()
    with pytest.raises(ZeroDivisionError):
        tags(both, lambda: 1 / 0)
    assert not any(module._forward_hooks for module in both.modules())


def test_outputs_and_gradients_are_as_without():
    both, inputs = Both(), torch.randn(6, 3)
    results = []
    for context in (nullcontext(), summarized_output(both, new_summary())):
        with context:
            action, _ = both.actor(inputs)
            results.append([action, *torch.autograd.grad(action.sum(), list(both.actor.parameters()))])
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_copies_that_are_computed_together_and_convolutions_and_memory():
    critics = Ensemble(lambda: ValueNetwork(INPUT, fc_layer_params=(4,)), 2)
    written = tags(nn.ModuleDict({"critics": critics}), lambda: critics(torch.ones(6, 3)))
    assert layers(written) == {"critics.copies.0._encoding._dense.layers.0", "critics.copies.0._head._output"}

    seeing = ValueNetwork(IMAGE, conv_layer_params=((2, 3, 2),), fc_layer_params=(4,))
    found = layers(tags(nn.ModuleDict({"value": seeing}), lambda: seeing(torch.ones(6, 1, 8, 8))))
    assert any("layers.0" in name and "_encoder" in name for name in found)

    memory = LSTMEncodingNetwork(INPUT, hidden_size=4)
    state = tuple((torch.zeros(6, 4), torch.zeros(6, 4)) for _ in memory.state_spec)
    found = layers(tags(nn.ModuleDict({"net": memory}), lambda: unroll_network(memory, torch.ones(5, 6, 3), state)))
    assert "net._recurrent.0" in found
