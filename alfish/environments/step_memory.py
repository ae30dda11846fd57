"""Memory for time steps: arrays to write into, and tensors that share it with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from math import prod
from typing import NamedTuple

import numpy as np
import torch

from alfish import nest, specs
from alfish.environments.conversion import numpy_dtype
from alfish.environments.spaces import Array, Field
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
    observation: tuple[Array, ...]  # by leaf; undefined until written
    prev_action: tuple[Array, ...]  # by leaf; undefined until written
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
        self._observation_spec = observation_spec
        self._action_spec = action_spec
        self._info_keys = tuple(info_keys)
        self._env_id = torch.arange(batch_size)
        observations, actions = nest.leaves(observation_spec), nest.leaves(action_spec)
        num_bytes = batch_size * (specs.nbytes(observations) + specs.nbytes(actions))
        num_steps = max(1, min(_MOST_STEPS, _MOST_BYTES // max(1, num_bytes)))

        def fields(leaves: Sequence[specs.TensorSpec]) -> list[Field]:
            return [((batch_size, *leaf.shape), numpy_dtype(leaf.dtype)) for leaf in leaves]

        # Actions are kept for longer than the rest, and integers may be pictures: what is kept must not keep these.
        self._is_float = [leaf.dtype is torch.float32 for leaf in observations]
        floats = [leaf for leaf in observations if leaf.dtype is torch.float32]
        others = [leaf for leaf in observations if leaf.dtype is not torch.float32]
        numbers = fields([*floats, specs.TensorSpec(reward_shape)])
        marks = fields([specs.TensorSpec((), torch.int32), *[specs.TensorSpec(())] * (1 + len(info_keys))])
        self._num_numbers = len(numbers)
        self._numbers_and_marks = _Rows(num_steps, numbers + marks, zeros=True)
        self._others = _Rows(num_steps, fields(others))
        self._actions = _Rows(num_steps, fields(actions))
        self._width = sum(map(_padded_size, numbers)) // np.dtype(np.float32).itemsize
        self.zeros = np.zeros(self._width, np.float32)  # like the `numbers` of a step
        self._left: Iterator[StepArrays] = iter(())  # of the block

    def take(self) -> StepArrays:
        """Memory that nobody else has or will be given."""
        # The iterator holds its steps to the last, so their tensors go all at once: a third of the time of one by one.
        # And they go before others are made, which then get memory that is still in the cache.
        step = next(self._left, None)
        if step is not None:
            return step
        # Also when somebody only looks, later rows may be learned from.
        with torch.inference_mode(False), torch.no_grad():
            self._left = iter(self._made())
        return next(self._left)

    def _made(self) -> list[StepArrays]:
        memory, leaves = self._numbers_and_marks.made()
        *floats, rewards = leaves[: self._num_numbers]
        step_types, discounts, *infos = leaves[self._num_numbers :]
        left_floats, left_others = iter(floats), iter(self._others.made()[1])
        observations = [next(left_floats if is_float else left_others) for is_float in self._is_float]
        actions = self._actions.made()[1]
        step_types.fill(StepType.MID)
        discounts.fill(1.0)
        info_arrays: Iterable[dict[str, Array]] = repeat({})
        info_tensors: Iterable[Nest] = repeat(())
        if infos:
            for array in infos:
                array.fill(np.nan)
            info_arrays = [dict(zip(self._info_keys, row, strict=True)) for row in zip(*infos, strict=True)]
            columns = [_tensors(array) for array in infos]
            info_tensors = [dict(zip(self._info_keys, row, strict=True)) for row in zip(*columns, strict=True)]
        time_steps = map(
            _time_step,
            _tensors(step_types),
            _tensors(rewards),
            _tensors(discounts),
            _nests(self._observation_spec, observations),
            _nests(self._action_spec, actions),
            repeat(self._env_id),
            info_tensors,
        )
        columns_of_a_step = (
            step_types,
            rewards,
            discounts,
            zip(*observations, strict=True),
            zip(*actions, strict=True),
            info_arrays,
            memory.view(np.float32)[:, : self._width],
            time_steps,
        )
        return list(map(StepArrays._make, zip(*columns_of_a_step, strict=False)))


class _Rows:
    """Makes memory for some leaves of a block of steps: one allocation, cut by numpy, which torch takes longer for.

    Args:
        num_steps: in the block.
        fields: shape, with the batch, and dtype of each leaf.
        zeros: everything is 0 at first, also what lies between the leaves; else it is undefined.
    """

    def __init__(self, num_steps: int, fields: Sequence[Field], zeros: bool = False) -> None:
        sizes = [_padded_size(field) for field in fields]
        num_bytes = sum(sizes)  # of a step
        self._shape = (num_steps, num_bytes)
        self._make = torch.zeros if zeros else torch.empty
        offsets = accumulate(sizes, initial=0)
        self._layout = [
            ((num_steps, *shape), dtype, offset, (num_bytes, *_strides(shape, dtype.itemsize)))
            for (shape, dtype), offset in zip(fields, offsets, strict=False)
        ]

    def made(self) -> tuple[Array, list[Array]]:
        """The bytes, `[num_steps, num_bytes]`, and each leaf in them, `[num_steps, B, ...]`."""
        memory = self._make(self._shape, dtype=torch.uint8).numpy()  # aligned, which numpy's own is not
        return memory, [
            np.ndarray(shape, dtype, memory, offset, strides) for shape, dtype, offset, strides in self._layout
        ]


def _tensors(array: Array) -> tuple[torch.Tensor, ...]:
    """By step."""
    # Each on its own, no views of one whole: quicker made, and who writes into one does not count as writing into all.
    with torch._C._AutoDispatchBelowADInplaceOrView():
        return torch.from_numpy(array).unbind()


def _nests(spec: Nest, arrays: list[Array]) -> Sequence[Nest]:
    """By step."""
    if nest.is_leaf(spec):
        return _tensors(arrays[0])
    return [nest.unflatten(spec, row) for row in zip(*map(_tensors, arrays), strict=True)]


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


def _padded_size(field: Field) -> int:
    """So many bytes that what follows is aligned."""
    shape, dtype = field
    return -(-prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT


def _strides(shape: Shape, itemsize: int) -> Shape:
    """In bytes, of an array without gaps."""
    return tuple(itemsize * prod(shape[axis + 1 :]) for axis in range(len(shape)))
