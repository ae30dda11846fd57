"""A compiled function gives what the function gives, with present values, and draws what it would draw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._inductor import config as inductor
from torch.nn import functional as F

from alfish.algorithms import compilation
from alfish.algorithms.compilation import CannotCompile, compile_graph, each_once, find_compiler

Tensors = list[torch.Tensor]


@pytest.fixture
def _as_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor takes seconds; what it gets is quick to run."""
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", lambda graph, examples: graph)


def test_inductor_reads_and_changes_tensors_that_are_not_arguments() -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    generator, same = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)

    def step(inputs: Tensors) -> Tensors:
        noise = torch.empty_like(inputs[0]).normal_(generator=generator)
        loss = (weight * inputs[0] + noise).square().sum()
        (gradient,) = torch.autograd.grad(loss, [weight])
        with torch.no_grad():
            weight.copy_(weight - 0.1 * gradient)
        return [loss.detach()]

    graph = compile_graph(step, [torch.zeros(2)])
    assert weight.tolist() == [1.0, 2.0]  # compiling changes nothing
    for x in (torch.tensor([1.0, -1.0]), torch.tensor([0.5, 0.0])):
        before = weight.detach().clone()
        error = before * x + torch.empty(2).normal_(generator=same)
        (loss,) = graph([x])
        torch.testing.assert_close(loss, error.square().sum())
        torch.testing.assert_close(weight.detach(), before - 0.2 * x * error)
    assert torch.equal(generator.get_state(), same.get_state())


def test_the_graph_gets_each_tensor_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held by the graph as well, they would be inputs twice, and sharing memory costs a third of a small update."""
    given: list[tuple[torch.fx.GraphModule, int]] = []

    def note(graph: torch.fx.GraphModule, examples: Tensors) -> torch.fx.GraphModule:
        given.append((graph, len(examples)))
        return graph

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", note)
    weight, state = torch.ones(2, requires_grad=True), torch.zeros(2)
    compile_graph(lambda inputs: [(weight * inputs[0] + state + state).detach()], [torch.ones(2)])
    ((graph, number),) = given
    assert number == len(graph.graph.find_nodes(op="placeholder")) == 3
    assert [*graph.parameters(), *graph.buffers()] == []


@pytest.mark.usefixtures("_as_traced")
@pytest.mark.parametrize(
    "draw",
    [
        lambda like, generator: torch.empty_like(like).exponential_(2.0, generator=generator),
        lambda like, generator: torch.rand(like.shape, generator=generator),
        lambda like, generator: torch.randn(3, generator=generator),
    ],
)
def test_draws_go_on_where_the_stream_is(draw: Callable[..., torch.Tensor]) -> None:
    generator, same = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    graph = compile_graph(lambda inputs: [inputs[0] + draw(inputs[0], generator)], [torch.zeros(3)])
    for _ in range(2):
        assert torch.equal(graph([torch.ones(3)])[0], 1 + draw(torch.zeros(3), same))


@pytest.mark.usefixtures("_as_traced")
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda inputs: [F.dropout(inputs[0])], "global stream"),
        (lambda inputs: [torch.bernoulli(inputs[0], generator=torch.Generator())], "bernoulli draws random numbers"),
    ],
)
def test_random_numbers_that_could_not_be_repeated_are_refused(
    function: Callable[[Tensors], Tensors], reason: str
) -> None:
    with pytest.raises(CannotCompile, match=reason):
        compile_graph(function, [torch.full((3,), 0.5)])


def test_a_number_taken_from_a_tensor_is_computed_anew_in_every_call() -> None:
    graph = compile_graph(lambda inputs: [inputs[0] * inputs[0].sum().item()], [torch.ones(3)])
    assert graph([torch.full((3,), 2.0)])[0].tolist() == [12.0, 12.0, 12.0]


@pytest.mark.parametrize("peek", [lambda x: x.numpy(), lambda x: bool(x[0] > 0)])
def test_a_look_at_values_is_an_error(peek: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(Exception, match=r".+"):
        compile_graph(lambda inputs: [inputs[0] * 2 if peek(inputs[0]) is not None else inputs[0]], [torch.ones(3)])


def test_a_decision_by_values_is_told() -> None:
    with pytest.raises(CannotCompile, match="decided by the values of tensors"):
        compile_graph(lambda inputs: [inputs[0] * 2 if inputs[0].sum().item() > 0 else inputs[0]], [torch.ones(3)])


def test_inputs_that_are_not_read_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(
        "torch._inductor.compile_fx.compile_fx", lambda graph, examples: (given.append(len(examples)), graph)[1]
    )
    graph = compile_graph(lambda inputs: [inputs[1] * 2], [torch.zeros(3), torch.zeros(2), torch.zeros(1)])
    assert given == [1]
    assert graph.used == (1,)
    assert graph([torch.zeros(3), torch.ones(2), torch.zeros(1)])[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("function", "is_whole"),
    [
        (lambda x: [x + 1, x * 2], True),
        (lambda x: [(x + 1)[:2]], True),
        (lambda x: list((x + 1).max(dim=0)), True),
        (lambda x: [x + 1, x[1:]], False),
        (lambda x: [x], False),
        (lambda x: [x.detach().t()], False),
        (lambda x: list((x + 1).split(1)), False),
        (lambda x: [y := x + 1, y.detach()], False),
        (lambda x: [y := x + 1, y], False),
    ],
)
def test_outputs_may_be_parts_of_inputs_and_of_each_other(
    function: Callable[[torch.Tensor], Tensors], is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wholes: list[bool] = []
    unwrapped = compilation._unwrapped
    monkeypatch.setattr(compilation, "_unwrapped", lambda run, whole: (wholes.append(whole), unwrapped(run, whole))[1])
    graph = compile_graph(lambda inputs: function(inputs[0]), [torch.zeros(3, 2)])
    assert wholes == [is_whole]
    assert (graph.run.__name__ != "run_wrapped") == is_whole
    for x in (torch.arange(6.0).view(3, 2), torch.ones(3, 2)):
        found, expected = graph([x]), function(x)
        assert len(found) == len(expected)
        assert all(map(torch.equal, found, expected))


def test_a_missing_compiler_is_told_and_one_that_is_there_is_found() -> None:
    find_compiler()
    with (
        inductor.patch({"cpp.cxx": ("no-such-compiler",)}),
        pytest.raises(CannotCompile, match=r"no C\+\+ compiler was found: install g\+\+"),
    ):
        find_compiler()


@pytest.mark.usefixtures("_as_traced")
def test_a_graph_fits_what_is_laid_out_like_the_inputs_that_it_reads() -> None:
    graph = compile_graph(lambda inputs: [inputs[1] + 1], [torch.zeros(7), torch.zeros(2, 3)])
    assert graph.fits([torch.zeros(4), torch.ones(2, 3)])  # the first is not read
    assert not graph.fits([torch.zeros(7), torch.zeros(2, 4)])
    assert not graph.fits([torch.zeros(7), torch.zeros(3, 2).t()])
    assert not graph.fits([torch.zeros(7), torch.zeros(2, 3), torch.zeros(1)])  # then it may mean others


def test_outputs_that_are_there_twice_are_given_once() -> None:
    one, other = torch.ones(1), torch.ones(1)
    leaves, places = each_once({"loss": one, "extra": (other, one)})
    assert [id(leaf) for leaf in leaves] == [id(one), id(other)]
    assert places == {"loss": 0, "extra": (1, 0)}


@pytest.mark.parametrize(("threads", "most_together"), [(1, 16), (2, 1)])
def test_loops_of_several_threads_stay_apart(threads: int, most_together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every number that is computed alone is a barrier: half of Adam's time with layers of 256."""
    sizes: list[int] = []
    monkeypatch.setattr(
        "torch._inductor.compile_fx.compile_fx",
        lambda graph, examples: (sizes.append(inductor.cpp.max_horizontal_fusion_size), graph)[1],
    )
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    compile_graph(lambda inputs: [inputs[0] * 2], [torch.zeros(3)])
    assert sizes == [most_together]
