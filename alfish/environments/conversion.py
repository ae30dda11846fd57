"""Between Gymnasium's values and alfish's tensors; shared by all backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from alfish import nest, specs
from alfish.environments import spaces
from alfish.environments.spaces import Array, Field, leaf_values
from alfish.types import Nest


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype


class Observations:
    """Observations of `space` as fresh tensors of `spec`."""

    def __init__(self, space: gym.Space[Any], batch_size: int) -> None:
        self.space = space
        self.spec = specs.from_space(space)
        self.fields: tuple[Field, ...] = tuple((leaf.shape, numpy_dtype(leaf.dtype)) for leaf in nest.leaves(self.spec))
        self.is_plain = nest.is_leaf(self.spec)
        self._layout = [((batch_size, *shape), dtype) for shape, dtype in self.fields]

    def arrays(self) -> list[Array]:
        """Room for one batch, a row per environment, an array per leaf."""
        return [np.empty(shape, dtype) for shape, dtype in self._layout]

    def write(self, arrays: Sequence[Array], index: int, observation: Any) -> None:
        if self.is_plain:
            arrays[0][index] = observation
        else:
            for array, leaf in zip(arrays, leaf_values(self.spec, observation), strict=True):
                array[index] = leaf

    def tensors(self, arrays: Sequence[Array]) -> Nest:
        if self.is_plain:
            return torch.from_numpy(arrays[0])
        return nest.unflatten(self.spec, [torch.from_numpy(array) for array in arrays])

    def write_batch(self, arrays: Sequence[Array], batch: Any) -> None:
        """A vector environment's observations, copied, since it may use its arrays again."""
        if self.is_plain:
            arrays[0][...] = batch
        else:
            for array, leaf in zip(arrays, leaf_values(self.spec, batch), strict=True):
                array[...] = leaf


class Actions:
    """Tensors of actions as what the environments take.

    With `clip`, elements of a Box are clipped to its bounds on the way to the environment, since a Gaussian policy
    knows no bounds; what is stored as `prev_action` stays as the policy gave it.
    """

    def __init__(self, space: gym.Space[Any], batch_size: int, clip: bool) -> None:
        self.spec = specs.from_space(space)
        self.is_plain = nest.is_leaf(self.spec)
        self._batch_size = batch_size
        self._leaves = [
            _ActionLeaf(spec, leaf_space, batch_size, clip)
            for spec, leaf_space in zip(nest.leaves(self.spec), spaces.named_leaves(space).values(), strict=True)
        ]
        self.fields: tuple[Field, ...] = tuple(leaf.field for leaf in self._leaves)

    def store(self, action: Nest, arrays: Sequence[Array]) -> None:
        """Writes each leaf of `action` into its array, as it is."""
        if self.is_plain:
            arrays[0][...] = self._leaves[0].numpy(action)
        else:
            for leaf, value, array in zip(self._leaves, leaf_values(self.spec, action), arrays, strict=True):
                array[...] = leaf.numpy(value)

    def leaves(self, stored: Sequence[Array]) -> list[Array]:
        """What the environments take, an array `[B, ...]` per leaf."""
        return [leaf.given(array) for leaf, array in zip(self._leaves, stored, strict=True)]

    def batch(self, stored: Sequence[Array]) -> Any:
        """What a vector environment takes: the nest, with `[B, ...]` arrays."""
        return self._leaves[0].given(stored[0]) if self.is_plain else nest.unflatten(self.spec, self.leaves(stored))

    def each(self, stored: Sequence[Array]) -> list[Any]:
        """What the single environments take, one after the other."""
        if self.is_plain:
            return list(self._leaves[0].given(stored[0]))
        batch = self.batch(stored)
        return [nest.index(batch, index) for index in range(self._batch_size)]

    def one(self, stored: Sequence[Array]) -> Any:
        """What a single environment takes, for leaves without the batch."""
        given = self.leaves([array[None] for array in stored])
        return given[0][0] if self.is_plain else nest.index(nest.unflatten(self.spec, given), 0)


class _ActionLeaf:
    def __init__(self, spec: specs.BoundedTensorSpec, space: gym.Space[Any], batch_size: int, clip: bool) -> None:
        self._dtype = spec.dtype
        self._shape = (batch_size, *spec.shape)
        self._given_dtype = np.dtype(space.dtype)
        self._is_given_as_stored = self._given_dtype == numpy_dtype(spec.dtype)
        self.field: Field = (spec.shape, self._given_dtype)
        bounded = isinstance(space, gym.spaces.Box) and (np.isfinite(space.low).any() or np.isfinite(space.high).any())
        self._bounds = (space.low, space.high) if clip and bounded else None  # type: ignore[attr-defined]

    def numpy(self, value: torch.Tensor) -> Array:
        """Shares the memory of `value`, if it can be. Its dtype may be another than that of the spec."""
        try:
            array: Array = value.numpy()
        except (RuntimeError, TypeError):  # it has a gradient, is elsewhere, or of a dtype that is torch's alone
            array = value.detach().to("cpu", self._dtype).numpy()
        if array.shape != self._shape:
            raise ValueError(f"an action of shape {array.shape}; the environment takes {self._shape}")
        return array

    def given(self, stored: Array) -> Array:
        """Always a copy: an environment may keep or change what it is given."""
        array = stored.copy() if self._is_given_as_stored else stored.astype(self._given_dtype)
        if self._bounds is not None:
            low, high = self._bounds
            np.maximum(array, low, out=array)
            np.minimum(array, high, out=array)
        return array


class EnvInfo:
    """The chosen fields of Gymnasium's `info` as float32 scalars; nan where a step does not have the field."""

    def __init__(self, keys: Sequence[str], batch_size: int) -> None:
        self.keys = tuple(keys)
        self.spec: Nest = {key: specs.TensorSpec(()) for key in self.keys} or ()
        self._batch_size = batch_size

    def empty(self) -> dict[str, Array]:
        return {key: np.full(self._batch_size, np.nan, np.float32) for key in self.keys}

    def write(self, arrays: dict[str, Array], index: int, info: Mapping[str, Any]) -> None:
        for key, array in arrays.items():
            if key in info:
                array[index] = info[key]

    def write_batch(self, arrays: dict[str, Array], infos: Mapping[str, Any]) -> None:
        """From a vector environment's infos, where `_key` says which rows have `key`."""
        for key, array in arrays.items():
            if key in infos:
                present = infos.get(f"_{key}", slice(None))
                array[present] = np.asarray(infos[key])[present]
