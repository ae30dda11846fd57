"""A function of tensors as one compiled graph.

The function runs once on tensors without values, and every operation of torch on the way is noted, those of autograd
included. So whatever Python did to get there (records, nests, modules, context managers) costs nothing later, and needs
no support by a compiler; but what Python decided then stays decided. The notes go to inductor, which keeps what it
makes of them on disk, so that the next run of the same kind starts quickly.

Tensors that the function did not get as arguments, such as parameters, are inputs of the graph: it reads their present
values, and changes them in place where the function does. Random numbers from a `torch.Generator` are drawn outside,
in the same order, and handed in: the streams go on as without compilation.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.overrides import TorchFunctionMode

from alfish import nest
from alfish.algorithms.graph_passes import add_biases_last, turn_narrow_products
from alfish.algorithms.onednn_lowering import onednn_products
from alfish.types import Nest

Tensors = list[torch.Tensor]
Layout = list[tuple[torch.Size, tuple[int, ...]]]  # shapes and strides


class CannotCompile(Exception):
    """The message says why, as the end of a sentence."""


def failure(error: Exception) -> str:
    """Why compiling failed, in one line."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


@dataclass(frozen=True)
class Draw:
    """Random numbers that the function asks a generator for; a call puts new ones into `buffer`."""

    function: Callable[..., torch.Tensor]  # e.g. `torch.Tensor.normal_`
    buffer: torch.Tensor
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    in_place: bool

    def __call__(self) -> None:
        if self.in_place:
            self.function(self.buffer, *self.arguments, **self.options)
        else:
            self.function(*self.arguments, **self.options, out=self.buffer)


@dataclass(frozen=True)
class CompiledGraph:
    """Called with the inputs; answers with the outputs."""

    run: Callable[[Tensors], Sequence[torch.Tensor]]
    num_inputs: int
    used: tuple[int, ...]  # of the inputs
    layout: Layout  # of those
    captured: Tensors  # what the function found elsewhere than among its inputs
    draws: tuple[Draw, ...]

    def fits(self, inputs: Tensors) -> bool:
        """Whether it was made for inputs like these; a call does not look."""
        return len(inputs) == self.num_inputs and _layout(inputs, self.used) == self.layout

    def __call__(self, inputs: Tensors) -> Sequence[torch.Tensor]:
        for draw in self.draws:
            draw()
        return self.run([*[inputs[index] for index in self.used], *self.captured])


def compile_graph(function: Callable[[Tensors], Tensors], inputs: Tensors) -> CompiledGraph:
    """`function` for inputs of the shapes, strides and types of these.

    Raises:
        CannotCompile: it depends on values of tensors, or draws random numbers in a way that cannot be repeated.
    """
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx

    graph, captured, draws, examples = _trace(function, inputs)
    used = _drop_unused(graph, len(inputs))
    add_biases_last(graph)
    turn_narrow_products(graph)
    examples = [*[examples[index] for index in used], *examples[len(inputs) :]]
    # In this process: workers of its own would outlive the compilation, and meet the signals of a run. Without looking
    # at the shapes of all inputs in every call: whoever has the graph knows what it was made for. With the calls of the
    # kernels in C++ as well: Python takes as long for them as small kernels do.
    options = {"compile_threads": 1, "size_asserts": False, "cpp_wrapper": True}
    if torch.get_num_threads() > 1:
        # Unrelated loops each on their own: together, threads would wait for each other at every single number.
        options["cpp.max_horizontal_fusion_size"] = 1
    with torch.no_grad(), config.patch(options), onednn_products():
        run = _unwrapped(compile_fx(graph, examples), _owns_its_outputs(graph))
    return CompiledGraph(run, len(inputs), used, _layout(inputs, used), captured, draws)


def _unwrapped(compiled: Any, is_whole: bool) -> Callable[[Tensors], Sequence[torch.Tensor]]:
    """What inductor made, without what is wrapped around it: that takes as long as half of acting in a small network.

    Args:
        compiled: what `compile_fx` gave.
        is_whole: nothing is left to do after inductor's part.
    """
    from torch._inductor.output_code import CompiledFxGraph

    inner = inspect.unwrap(compiled, stop=lambda each: isinstance(each, CompiledFxGraph))
    if is_whole and isinstance(inner, CompiledFxGraph) and inner.current_callable is not None:
        run: Callable[[Tensors], Sequence[torch.Tensor]] = inner.current_callable
        return run

    def run_wrapped(tensors: Tensors) -> Sequence[torch.Tensor]:
        with torch.no_grad():
            outputs: Sequence[torch.Tensor] = compiled(*tensors)
        return outputs

    return run_wrapped


def _owns_its_outputs(traced: fx.GraphModule) -> bool:
    """Whether no output shares memory with an input or with another output: those would have to be made of these."""
    (outputs,) = traced.graph.find_nodes(op="output")
    owners = [_owner(node) for node in outputs.all_input_nodes]
    is_repeated = len(outputs.args[0]) > len(owners)
    return not is_repeated and len(set(owners)) == len(owners) and all(node.op != "placeholder" for node in owners)


def _owner(node: fx.Node) -> fx.Node:
    """The node whose memory this one looks at."""
    made_by = node.args[0] if node.target is operator.getitem else node
    assert isinstance(made_by, fx.Node)
    schema = getattr(made_by.target, "_schema", None)
    if schema is None or all(returned.alias_info is None for returned in schema.returns):
        return node
    (looked_at,) = made_by.all_input_nodes[:1]
    return _owner(looked_at)


def each_once(outputs: Nest) -> tuple[Tensors, Nest]:
    """The leaves without repetition, as `compile_graph` likes its outputs, and which of them comes where."""
    leaves = list({id(leaf): leaf for leaf in nest.leaves(outputs)}.values())
    places = {id(leaf): place for place, leaf in enumerate(leaves)}
    return leaves, nest.map(lambda leaf: places[id(leaf)], outputs)


def _layout(inputs: Tensors, used: tuple[int, ...]) -> Layout:
    return [(inputs[index].shape, inputs[index].stride()) for index in used]


def find_compiler() -> None:
    """
    Raises:
        CannotCompile: there is no C++ compiler.
    """
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError, OSError) as error:
        raise CannotCompile("no C++ compiler was found: install g++, or set CXX to one") from error


# The same numbers for memory that is there, in half the time.
_FILLING = {torch.rand: torch.Tensor.uniform_, torch.randn: torch.Tensor.normal_}


class _Drawing(TorchFunctionMode):
    """Notes what is asked of generators, and answers with the buffers that will hold it."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[Draw] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if options.get("generator") is None:
            return func(*args, **options)
        in_place = bool(args) and isinstance(args[0], torch.Tensor)
        arguments = args[1:] if in_place else args
        name = getattr(func, "__name__", str(func))
        if (in_place and not name.endswith("_")) or any(isinstance(each, torch.Tensor) for each in arguments):
            raise CannotCompile(f"{name} draws random numbers that depend on tensors")
        with _for_real():
            like = args[0] if in_place else func(*args, **{**options, "generator": torch.Generator("cpu")})
            buffer = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        if func in _FILLING:
            self.draws.append(Draw(_FILLING[func], buffer, (), {"generator": options["generator"]}, in_place=True))
        else:
            self.draws.append(Draw(func, buffer, arguments, options, in_place))
        return args[0].copy_(buffer) if in_place else buffer.clone()


def _for_real() -> Any:
    """Inside the block tensors have values, and nothing is noted."""
    from contextlib import ExitStack

    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    stack = ExitStack()
    stack.enter_context(unset_fake_temporarily())
    stack.enter_context(disable_proxy_modes_tracing())
    return stack


def _trace(
    function: Callable[[Tensors], Tensors], inputs: Tensors
) -> tuple[fx.GraphModule, Tensors, tuple[Draw, ...], Tensors]:
    """The graph, what it captured, what it draws, and its inputs and what it captured as tensors without values."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

    # Without a ShapeEnv, though all sizes are fixed, inductor would not keep its work on disk.
    fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
    drawing = _Drawing()
    examples = [fake.from_tensor(each.detach()) for each in inputs]
    try:
        with fake, drawing:
            graph = make_fx(function, _allow_non_fake_inputs=True)(examples)
    except GuardOnDataDependentSymNode as error:
        raise CannotCompile("what to do is decided by the values of tensors") from error
    graph, captured = _lift_captured(graph)
    if any(isinstance(each, FakeTensor) for each in captured):
        raise CannotCompile("it keeps a tensor of the update under way")
    for node in graph.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise CannotCompile(f"{node.target} draws random numbers from the global stream, as dropout does")
    captured = [each.detach() for each in captured]
    return graph, captured, tuple(drawing.draws), [*examples, *map(fake.from_tensor, captured)]


def _drop_unused(traced: fx.GraphModule, number: int) -> tuple[int, ...]:
    """Takes those of the first `number` inputs out of the graph that it does not read; which ones are left."""
    placeholders = [node for node in traced.graph.nodes if node.op == "placeholder"][:number]
    used = tuple(index for index, node in enumerate(placeholders) if node.users)
    for node in placeholders:
        if not node.users:
            traced.graph.erase_node(node)
    traced.recompile()
    return used


def _lift_captured(traced: fx.GraphModule) -> tuple[fx.GraphModule, Tensors]:
    """The graph with inputs, after the others, for all tensors that it holds; and these tensors."""
    graph, found = traced.graph, dict[int, tuple[torch.Tensor, fx.Node]]()
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for node in list(graph.nodes):
        if node.op != "get_attr":
            continue
        tensor = getattr(traced, str(node.target))
        if id(tensor) not in found:
            with graph.inserting_after(last):
                last = graph.placeholder(f"captured_{len(found)}")
            last.meta = dict(node.meta)
            found[id(tensor)] = tensor, last
        node.replace_all_uses_with(found[id(tensor)][1])
        graph.erase_node(node)
    graph.set_codegen(fx.graph.CodeGen())  # flat inputs and outputs
    # In a module of its own: what the traced one holds would enter the compiled graph once more, and every call would
    # have to sort out which inputs share memory.
    return fx.GraphModule(torch.nn.Module(), graph), [tensor for tensor, _ in found.values()]
