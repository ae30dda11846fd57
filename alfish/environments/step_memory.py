"""Memory for time steps: arrays to write into, and tensors that share it with them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, repeat
from math import prod
from typing import NamedTuple

import numpy as np
import torch

from alfish import nest, specs
from alfish.environments.spaces import Array
from alfish.types import Nest, StepType, TimeStep

# Rows begin where torch's own tensors do, so that no kernel takes another way for one than for the other.
_ALIGNMENT = 64
_MOST_STEPS = 64
_MOST_BYTES = 2**16

Shape = tuple[int, ...]


class StepArrays(NamedTuple):
    """One step of all environments, to be written. It is MID everywhere, with reward 0, discount 1 and infos nan."""

    step_type: Array
    reward: Array
    discount: Array
    observation: list[Array]  # by leaf; undefined until written
    prev_action: list[Array]  # by leaf; undefined until written
    infos: dict[str, Array]
    numbers: Array  # the float32 leaves of the observation and the reward, in one row, for `FiniteCheck`
    time_step: TimeStep  # tensors of the same memory


class StepMemory:
    """Gives the memory of a step to whoever makes one. It is given once, and lives as long as a tensor of it.

    Making a tensor takes a microsecond, and a time step has six. So memory is made for a block of steps at once and cut
    into rows, which halves that; a block is small, since a single row keeps all of it.
    """

    def __init__(
        self, batch_size: int, observation_spec: Nest, action_spec: Nest, reward_shape: Shape, info_keys: Sequence[str]
    ) -> None:
        self._batch_size = batch_size
        self._observation_spec = observation_spec
        self._action_spec = action_spec
        self._info_keys = tuple(info_keys)
        self._env_id = torch.arange(batch_size)
        observations, self._actions = nest.leaves(observation_spec), nest.leaves(action_spec)
        self._is_float = [leaf.dtype is torch.float32 for leaf in observations]
        self._floats = [leaf for leaf in observations if leaf.dtype is torch.float32] + [specs.TensorSpec(reward_shape)]
        self._others = [leaf for leaf in observations if leaf.dtype is not torch.float32]
        num_bytes = batch_size * (specs.nbytes(observations) + specs.nbytes(self._actions))
        self._num_steps = max(1, min(_MOST_STEPS, _MOST_BYTES // max(1, num_bytes)))
        self.zeros = np.zeros(sum(self._widths()), np.float32)  # like the `numbers` of a step
        self._block: list[StepArrays] = []
        self._taken = 0  # of the block

    def take(self) -> StepArrays:
        """Memory that nobody else has or will be given."""
        if self._taken == len(self._block):
            # Also when somebody only looks, later rows may be learned from.
            with torch.inference_mode(False), torch.no_grad():
                self._block = self._made()
            self._taken = 0
        # Steps stay in the block, whose tensors then go all at once: a third of the time of one by one.
        self._taken += 1
        return self._block[self._taken - 1]

    def _made(self) -> list[StepArrays]:
        number, batch = self._num_steps, self._batch_size
        numbers, floats = self._floats_of_a_block()
        *float_leaves, rewards = floats
        left_floats, left_others = iter(float_leaves), iter([self._empty(leaf) for leaf in self._others])
        observations = [next(left_floats if is_float else left_others) for is_float in self._is_float]
        actions = [self._empty(leaf) for leaf in self._actions]
        step_types = self._rows((batch,), torch.int32).fill_(StepType.MID)
        discounts = self._rows((batch,), torch.float32).fill_(1.0)
        infos = [self._rows((batch,), torch.float32).fill_(torch.nan) for _ in self._info_keys]

        def arrays(tensors: list[torch.Tensor]) -> list[list[Array]]:
            """By step, then by leaf."""
            return [list(row) for row in zip(*(tensor.numpy() for tensor in tensors), strict=True)]

        def nests(spec: Nest, tensors: list[torch.Tensor]) -> list[Nest]:
            if nest.is_leaf(spec):
                return list(tensors[0].unbind())
            return [nest.unflatten(spec, row) for row in zip(*(tensor.unbind() for tensor in tensors), strict=True)]

        info_tensors: list[Nest] = [()] * number
        info_arrays: list[dict[str, Array]] = [{}] * number
        if infos:
            columns = [tensor.unbind() for tensor in infos]
            info_tensors = [dict(zip(self._info_keys, row, strict=True)) for row in zip(*columns, strict=True)]
            info_arrays = [dict(zip(self._info_keys, row, strict=True)) for row in arrays(infos)]
        time_steps = map(
            _time_step,
            step_types.unbind(),
            rewards.unbind(),
            discounts.unbind(),
            nests(self._observation_spec, observations),
            nests(self._action_spec, actions),
            repeat(self._env_id),
            info_tensors,
        )
        return list(
            map(
                StepArrays,
                step_types.numpy(),
                rewards.numpy(),
                discounts.numpy(),
                arrays(observations),
                arrays(actions),
                info_arrays,
                numbers.numpy(),
                time_steps,
            )
        )

    def _floats_of_a_block(self) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The rows of all leaves that are checked for nan, and each of these leaves; zeros between them."""
        sizes = [self._batch_size * prod(leaf.shape) for leaf in self._floats]
        widths = self._widths()
        numbers = torch.zeros(self._num_steps, sum(widths))
        starts = accumulate(widths, initial=0)
        leaves = [
            numbers[:, start : start + size].view(self._num_steps, self._batch_size, *leaf.shape)
            for start, size, leaf in zip(starts, sizes, self._floats, strict=False)
        ]
        return numbers, leaves

    def _widths(self) -> list[int]:
        return [_padded(self._batch_size * prod(leaf.shape), 4) for leaf in self._floats]

    def _empty(self, leaf: specs.TensorSpec) -> torch.Tensor:
        return self._rows((self._batch_size, *leaf.shape), leaf.dtype)

    def _rows(self, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
        """`[num_steps, *shape]`."""
        size = prod(shape)
        rows = torch.empty(self._num_steps, _padded(size, dtype.itemsize), dtype=dtype)
        return rows[:, :size].view(self._num_steps, *shape)


def _time_step(
    step_type: torch.Tensor,
    reward: torch.Tensor,
    discount: torch.Tensor,
    observation: Nest,
    prev_action: Nest,
    env_id: torch.Tensor,
    env_info: Nest,
) -> TimeStep:
    """`TimeStep(...)` in a third of the time, which the constructor of a frozen dataclass needs."""
    time_step = TimeStep.__new__(TimeStep)
    fields = time_step.__dict__
    fields["step_type"] = step_type
    fields["reward"] = reward
    fields["discount"] = discount
    fields["observation"] = observation
    fields["prev_action"] = prev_action
    fields["env_id"] = env_id
    fields["env_info"] = env_info
    fields["untransformed"] = ()
    return time_step


def _padded(size: int, itemsize: int) -> int:
    """So many elements that the next row is aligned."""
    step = _ALIGNMENT // itemsize
    return -(-size // step) * step
