"""Rewritten graphs give the same numbers, and hold what they were rewritten to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from alfish.algorithms.graph_passes import add_biases_last, turn_narrow_products

GENERATOR = torch.Generator().manual_seed(0)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def traced(function: Callable[..., Any], *arguments: torch.Tensor) -> fx.GraphModule:
    return make_fx(function, tracing_mode="fake")(*arguments)


def shapes_of(graph: fx.GraphModule, target: Any) -> list[tuple[int, ...]]:
    """Of what these operations give, by running them."""
    found: list[tuple[int, ...]] = []

    class Watch(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            value = super().run_node(n)
            if n.target is target:
                found.append(tuple(value.shape))
            return value

    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    Watch(graph).run(*[torch.zeros(node.meta["val"].shape, dtype=torch.float64) for node in placeholders])
    return found


def names(graph: fx.GraphModule) -> set[str]:
    return {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}


def test_biases_are_added_after_the_product() -> None:
    arguments = numbers(5, 3), numbers(4, 3), numbers(4), numbers(2, 4, 3), numbers(2, 3, 5), numbers(2, 4, 1)

    def function(*given: torch.Tensor) -> list[torch.Tensor]:
        x, weight, bias, weights, columns, biases = given
        return [F.linear(x, weight, bias).relu(), torch.baddbmm(biases, weights, columns)]

    graph = traced(function, *arguments)
    assert {"aten.addmm.default", "aten.baddbmm.default"} <= names(graph)
    add_biases_last(graph)
    assert not {"aten.addmm.default", "aten.baddbmm.default"} & names(graph)
    for found, expected in zip(graph(*arguments), function(*arguments), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_product_with_factors_of_its_own_is_left_alone() -> None:
    arguments = numbers(4), numbers(5, 3), numbers(3, 4)
    graph = traced(lambda bias, x, y: torch.addmm(bias, x, y, beta=0.5, alpha=2.0), *arguments)
    add_biases_last(graph)
    assert "aten.addmm.default" in names(graph)
    torch.testing.assert_close(graph(*arguments), 0.5 * arguments[0] + 2.0 * (arguments[1] @ arguments[2]))


@pytest.mark.parametrize(
    ("left", "right", "computed"),
    [
        ((64, 256), (256, 4), (4, 64)),  # weight gradients of a layer with four inputs
        ((2, 64, 256), (2, 256, 23), (2, 23, 64)),  # of two networks at once
        ((4, 256), (256, 64), (4, 64)),  # wide
        ((64, 64), (64, 1), (64, 1)),  # a vector
        ((64, 64), (64, 64), (64, 64)),
        ((3, 64), (64, 4), (3, 4)),  # more columns than rows
    ],
)
def test_narrow_products_are_turned(left: tuple[int, ...], right: tuple[int, ...], computed: tuple[int, ...]) -> None:
    arguments = numbers(*left), numbers(*right)
    graph = traced(torch.matmul if len(left) == 2 else torch.bmm, *arguments)
    turn_narrow_products(graph)
    product = torch.ops.aten.mm.default if len(left) == 2 else torch.ops.aten.bmm.default
    assert shapes_of(graph, product) == [computed]
    torch.testing.assert_close(graph(*arguments), arguments[0] @ arguments[1])
