"""Every parameter has exactly one optimizer, the nearest."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from alfish.algorithms.algorithm import Algorithm
from alfish.algorithms.ownership import assign_optimizers
from alfish.errors import ConfigError
from alfish.optimizers.adam import Adam
from alfish.optimizers.sgd import SGD


class Part(Algorithm):
    def __init__(self, optimizer: SGD | Adam | None = None, **children: nn.Module) -> None:
        super().__init__(optimizer=optimizer)
        self.layer = nn.Linear(2, 1)
        for name, child in children.items():
            self.add_module(name, child)


def test_the_nearest_optimizer_wins() -> None:
    inner, outer, special = SGD(lr=0.1), Adam(lr=0.1), Adam(lr=0.2)
    root = Part(outer, inner=Part(inner, deep=Part()), bare=Part(), target=nn.Linear(2, 2))
    root.add_optimizer(special, [root.target])
    ownership = assign_optimizers(root)
    assert {name: list(owned) for name, owned in ownership.parameters.items()} == {
        "Adam": ["layer.weight", "layer.bias", "bare.layer.weight", "bare.layer.bias"],
        "SGD": [
            "inner.layer.weight",
            "inner.layer.bias",
            "inner.deep.layer.weight",
            "inner.deep.layer.bias",
        ],
        "Adam_1": ["target.weight", "target.bias"],
    }
    assert ownership.optimizers == {"Adam": outer, "SGD": inner, "Adam_1": special}
    assert set(inner.named_parameters) == set(ownership.parameters["SGD"])


def test_a_parameter_without_owner_is_an_error_that_shows_the_line_to_add() -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)no optimizer owns layer\.weight, layer\.bias.*Part\.optimizer = @Adam\(\)"
    ):
        assign_optimizers(Part())


def test_many_orphans_are_shortened() -> None:
    root = Part(a=Part(), b=Part(), c=Part())
    with pytest.raises(ConfigError, match="and 2 more"):
        assign_optimizers(root)


def test_a_shared_parameter_with_two_owners_is_an_error() -> None:
    shared = nn.Linear(1, 1)
    root = Part(SGD(lr=0.1), one=Part(Adam(lr=0.1), net=shared), two=Part(Adam(lr=0.1), net=shared))
    with pytest.raises(ConfigError, match=r"one\.net\.weight belongs to Adam, two\.net\.weight .* to Adam_1"):
        assign_optimizers(root)


def test_a_shared_parameter_with_one_owner_is_owned_once() -> None:
    shared = nn.Linear(1, 1)
    root = Part(SGD(lr=0.1), one=shared, two=shared)
    assert sum("weight" in name for name in assign_optimizers(root).parameters["SGD"]) == 2


def test_one_module_given_to_two_optimizers_is_an_error() -> None:
    root = Part(SGD(lr=0.1))
    root.add_optimizer(Adam(lr=0.1), [root.layer])
    root.add_optimizer(Adam(lr=0.1), [root.layer])
    with pytest.raises(ConfigError, match="two optimizers were added for one Linear"):
        assign_optimizers(root)


def test_what_needs_no_gradient_needs_no_optimizer_and_the_report_says_so() -> None:
    root = Part(SGD(lr=0.5), target=nn.Linear(3, 1).requires_grad_(False))
    report = assign_optimizers(root).report()
    assert report.splitlines() == [
        "SGD (SGD(lr=0.5)): 3 values",
        "    layer.weight (1, 2)",
        "    layer.bias (1,)",
        "no optimizer (not trained): target.weight, target.bias",
    ]


def test_optimizers_change_only_what_they_own() -> None:
    root = Part(SGD(lr=0.0), child=Part(SGD(lr=1.0)))
    ownership = assign_optimizers(root)
    before = {name: parameter.clone() for name, parameter in root.named_parameters()}
    (root.layer(torch.ones(2)) + root.child.layer(torch.ones(2))).sum().backward()
    for optimizer in ownership.optimizers.values():
        optimizer.step(root.progress)
    changed = {name for name, parameter in root.named_parameters() if not torch.equal(parameter, before[name])}
    assert changed == {"child.layer.weight", "child.layer.bias"}
