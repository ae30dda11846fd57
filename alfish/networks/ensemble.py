"""Several independent copies of a network that see the same inputs, computed together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from alfish import nest
from alfish.networks.layers import DenseStack, OutputLayer, batched_linear
from alfish.networks.network import Network
from alfish.specs import TensorSpec
from alfish.types import Nest


class Ensemble(Network):
    """`number` networks of one structure, each with its own initial parameters.

    The outputs are those of the copies, stacked in front: `[number, ...]`. A state has a row per copy after the batch:
    `[B, number, ...]`.

    Networks that are made of fully connected layers are one network whose parameters have the copies in front, so that
    every layer is one matrix product for all of them. Others (convolutions, memory, layer normalisation) go one by one.

    >>> from alfish.networks.value import ValueNetwork
    >>> values, _ = Ensemble(lambda: ValueNetwork(TensorSpec((4,))), 3)(torch.zeros(5, 4))
    >>> values.shape
    torch.Size([3, 5])

    Args:
        make: makes one copy; called `number` times.
        number: copies, at least 1.
    """

    def __init__(self, make: Callable[[], Network], number: int) -> None:
        copies = [make() for _ in range(number)]
        state_spec = nest.map(lambda spec: TensorSpec((number, *spec.shape), spec.dtype), copies[0].state_spec)
        super().__init__(copies[0].input_tensor_spec, state_spec, copies[0].output_size)
        self.number = number
        self._is_batched = all(map(_is_dense, copies))
        self.copies = nn.ModuleList([_merged(copies)] if self._is_batched else copies)
        self._stages = tuple(self.copies)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        if self._is_batched:
            return self._together(inputs, self.number)
        return self._one_by_one(lambda copy, its_state: copy(inputs, its_state), state, self.number)

    def unroll(
        self, inputs: Nest, state: Nest = (), is_first: torch.Tensor | None = None, number: int | None = None
    ) -> tuple[Nest, Nest]:
        """See `unroll_network`.

        Args:
            inputs: `[T, B, ...]` leaves.
            state: `[B, number, ...]`, before the first step.
            is_first: bool `[T, B]`; None when no episode starts inside.
            number: only the first so many copies; None: all.
        """
        number = self.number if number is None else number
        if self._is_batched:
            length = nest.first_leaf(inputs).shape[0]
            output, state = self._together(nest.flatten_time(inputs), number)  # see `Network.unroll`
            return nest.map(lambda leaf: leaf.unflatten(1, (length, -1)), output), state
        return self._one_by_one(lambda copy, its_state: copy.unroll(inputs, its_state, is_first), state, number)

    def _together(self, inputs: Nest, number: int) -> tuple[Nest, Nest]:
        answer: tuple[Nest, Nest] = self._stages[0](nest.map(lambda leaf: leaf.expand(number, *leaf.shape), inputs))
        return answer

    def _one_by_one(self, call: Callable[..., tuple[Nest, Nest]], state: Nest, number: int) -> tuple[Nest, Nest]:
        states = [nest.map(lambda leaf, row=row: leaf[:, row], state) for row in range(number)]
        answers = [call(copy, its_state) for copy, its_state in zip(self._stages[:number], states, strict=True)]
        outputs, new_states = zip(*answers, strict=True)
        return nest.stack(outputs), nest.stack(new_states, dim=1)


def _is_dense(network: nn.Module) -> bool:
    """Whether every parameter belongs to a linear layer that takes part in batched products."""
    dense = {
        parameter
        for module in network.modules()
        if isinstance(module, OutputLayer) or (isinstance(module, DenseStack) and not len(module.norms))
        for parameter in module.parameters()
    }
    return all(parameter in dense for parameter in network.parameters())


def _merged(copies: list[Network]) -> Network:
    """The first copy, turned into all of them: its parameters get those of the others."""
    first = copies[0]
    for modules in zip(*(copy.modules() for copy in copies), strict=True):
        if isinstance(modules[0], DenseStack | OutputLayer):
            modules[0].linear = batched_linear
        elif isinstance(modules[0], nn.Linear):
            for name in ("weight", "bias"):
                values = torch.stack([getattr(module, name).detach() for module in modules])
                setattr(modules[0], name, nn.Parameter(values))
    return first
