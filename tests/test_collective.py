"""What ranks tell each other, and gradients that are averaged."""

from __future__ import annotations

import torch
from torch import nn

from alfish.collective import Collective, average_gradients
from tests.thread_ranks import on_ranks


def test_a_process_alone_agrees_with_itself() -> None:
    alone = Collective()
    assert (alone.rank, alone.size) == (0, 1)
    assert alone.rows([1.5, 2]) == [[1.5, 2]]
    assert alone.total([3, 4]) == [3, 4]
    assert alone.all(True)
    assert not alone.all(False)
    assert alone.from_first("x") == "x"
    assert alone.gathered("x") == ["x"]


def test_numbers_are_told_by_rank_and_summed() -> None:
    assert (
        on_ranks(3, lambda ranks: ranks.rows([ranks.rank, float("inf")]))
        == [[[0.0, float("inf")], [1.0, float("inf")], [2.0, float("inf")]]] * 3
    )
    assert on_ranks(3, lambda ranks: ranks.total([ranks.rank, 10])) == [[3, 30]] * 3


def test_all_is_true_only_when_it_is_true_everywhere() -> None:
    assert on_ranks(2, lambda ranks: ranks.all(True)) == [True, True]
    assert on_ranks(2, lambda ranks: ranks.all(ranks.rank == 0)) == [False, False]


def test_every_gradient_becomes_the_mean_over_the_ranks() -> None:
    def work(ranks: Collective) -> list[list[float] | None]:
        weight, bias = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(()))
        here_alone, nowhere = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
        weight.grad = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) * (1 + 2 * ranks.rank)  # once and three times
        bias.grad = torch.tensor(float(ranks.rank))
        here_alone.grad = torch.tensor([6.0, 8.0]) if ranks.rank else None
        average_gradients(ranks, [weight, bias, here_alone, nowhere])
        return [
            None if each.grad is None else each.grad.flatten().tolist() for each in (weight, bias, here_alone, nowhere)
        ]

    assert on_ranks(2, work) == [[[2.0, 4.0, 6.0, 8.0], [0.5], [3.0, 4.0], None]] * 2


def test_a_gradient_that_is_not_finite_is_so_on_all_ranks() -> None:
    def work(ranks: Collective) -> bool:
        weight = nn.Parameter(torch.zeros(1))
        weight.grad = torch.tensor([float("nan") if ranks.rank else 1.0])
        average_gradients(ranks, [weight])
        return bool(weight.grad.isnan())

    assert on_ranks(2, work) == [True, True]
