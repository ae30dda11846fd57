"""A model that is not the same on all ranks is found, to the bit, and named."""

from __future__ import annotations

import torch
from torch import nn

from alfish.collective import Collective
from alfish.errors import RankFault
from alfish.training.parameter_check import ParameterCheck, difference, digests
from tests.thread_ranks import on_ranks


def model(last: float = 0.0) -> nn.Module:
    layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    for parameter in layers.parameters():
        nn.init.constant_(parameter, 0.5)
    layers[1].bias.data[0] = last
    return layers


def test_one_bit_makes_another_digest() -> None:
    bit = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0)).item()
    one, same, other = digests(model(1.0)), digests(model(1.0)), digests(model(bit))
    assert one == same
    assert [name for name in one if one[name] != other[name]] == ["1.bias"]
    assert digests(model(0.0)) != digests(model(-0.0))


def test_the_difference_names_the_first_parameter_and_who_agrees() -> None:
    ranks = [{"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "x", "c": "y"}, {"a": "1", "b": "2", "c": "3"}]
    assert (
        difference(ranks) == "the parameter b is one thing on rank 0, 2 but another on rank 1, and so are 1 more of 3"
    )


def test_it_looks_every_so_many_iterations_and_stops_all_ranks() -> None:
    def work(ranks: Collective) -> str:
        check = ParameterCheck(ranks, model(float(ranks.rank == 1)), interval=3)
        check.after(1)
        check.after(2)
        try:
            check.after(3)
        except RankFault as fault:
            return str(fault)
        return "nothing found"

    first, second = on_ranks(2, work)
    assert first == second
    assert first.startswith("after iteration 3, the parameter 1.bias is one thing on rank 0 but another on rank 1.")


def test_equal_models_pass_and_0_never_looks() -> None:
    assert on_ranks(2, lambda ranks: ParameterCheck(ranks, model(), 1).after(1)) == [None, None]
    assert on_ranks(2, lambda ranks: ParameterCheck(ranks, model(ranks.rank), 0).after(1)) == [None, None]
    ParameterCheck(Collective(), model(), 1).after(1)
