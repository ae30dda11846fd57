"""Rewrites of a traced graph that make it faster on CPUs, where inductor leaves its products as they are.

The numbers stay the same up to rounding.
"""

from __future__ import annotations

import torch
from torch import fx

_aten = torch.ops.aten
_WITHOUT_BIAS = {_aten.addmm.default: _aten.mm.default, _aten.baddbmm.default: _aten.bmm.default}
_PRODUCTS = tuple(_WITHOUT_BIAS.values())
_NARROW = 32  # columns


def add_biases_last(traced: fx.GraphModule) -> None:
    """Takes biases out of products, to be added together with what follows, such as an activation.

    A product that begins with its bias has it written to all of the result first: one more pass through memory.
    """
    graph = traced.graph
    for node in list(graph.nodes):
        product = _WITHOUT_BIAS.get(node.target)
        if product is None or node.kwargs or not _is_on_cpu(node):
            continue
        bias, *factors = node.args
        with graph.inserting_before(node):
            bare = graph.call_function(product, tuple(factors))
            bare.meta = dict(node.meta)
            # As a difference, which is the same number: a sum would be put back into the product.
            negative = graph.call_function(_aten.neg.default, (bias,))
            whole = graph.call_function(_aten.sub.Tensor, (bare, negative))
        _replace(node, whole)
    traced.recompile()


def turn_narrow_products(traced: fx.GraphModule) -> None:
    """Computes the transpose of products with few columns, such as the weight gradients of a layer with few inputs.

    The libraries behind torch go along rows, and take two to four times as long for short ones.
    """
    graph = traced.graph
    for node in list(graph.nodes):
        if node.target not in _PRODUCTS or not _is_on_cpu(node) or not _is_narrow(node.meta["val"]):
            continue
        left, right = node.args
        with graph.inserting_before(node):
            turned = graph.call_function(node.target, (_transposed(graph, right), _transposed(graph, left)))
            whole = _transposed(graph, turned)
        _replace(node, whole)
    traced.recompile()


def _is_on_cpu(node: fx.Node) -> bool:
    return node.meta["val"].device.type == "cpu"


def _is_narrow(product: torch.Tensor) -> bool:
    rows, columns = product.shape[-2:]
    return 1 < columns < min(rows, _NARROW)  # a single column is a vector, for which there are other routines


def _transposed(graph: fx.Graph, node: fx.Node) -> fx.Node:
    return graph.call_function(_aten.transpose.int, (node, -2, -1))


def _replace(node: fx.Node, by: fx.Node) -> None:
    by.meta = dict(node.meta)
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)
