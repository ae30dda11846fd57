"""What the layers of networks give while they learn: for `TrainerConfig.summarize_output`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from alfish import nest
from alfish.networks.layers import DenseStack, OutputLayer
from alfish.networks.network import Network
from alfish.summary.summary import Summary


@contextmanager
def summarized_output(algorithm: nn.Module, summary: Summary) -> Iterator[None]:
    """Inside the block, mean, standard deviation and histogram of the output of every layer go below `Output/`.

    Only passes with gradient count: what target networks give, and what is acted with, does not learn. Outside the
    block, layers run as fast as ever.

    Args:
        algorithm: its networks are looked at.
        summary: where to.
    """
    handles = [layer.register_forward_hook(partial(_note, summary, name)) for layer, name in _layers(algorithm).items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _note(summary: Summary, name: str, layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
    if not torch.is_grad_enabled():
        return
    with torch.no_grad():
        if isinstance(layer, DenseStack):  # calls no modules for its layers
            for index, each in enumerate(layer.layer_outputs(inputs[0])):
                _summarize(summary, f"{name}.layers.{index}", each)
            return
        for leaf in nest.leaves(output)[:1]:  # of a recurrent layer, what it gives, and not its state
            _summarize(summary, name, leaf)


def _summarize(summary: Summary, name: str, output: Any) -> None:
    if isinstance(output, torch.Tensor) and output.is_floating_point():
        values = output.float()
        summary.scalar(f"/Output/{name}/mean", values.mean())
        summary.scalar(f"/Output/{name}/std", values.std(correction=0))
        summary.histogram(f"/Output/{name}", values)


def _layers(algorithm: nn.Module) -> dict[nn.Module, str]:
    """What networks are made of, and its name: modules without children, and those that do without calling theirs."""
    found: dict[nn.Module, str] = {}
    for name, network in algorithm.named_modules():
        if isinstance(network, Network):
            for path, layer in network.named_modules(prefix=name):
                if isinstance(layer, DenseStack | OutputLayer) or not any(True for _ in layer.children()):
                    found.setdefault(layer, path)
    return found
