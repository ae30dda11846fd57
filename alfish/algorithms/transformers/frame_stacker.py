"""Several frames as one observation, while replay keeps one copy of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import torch

from alfish.algorithms.transformers.base import DataTransformer, StoredExperience, Tier
from alfish.algorithms.transformers.fields import Fields
from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.errors import ConfigError
from alfish.specs import BoundedTensorSpec, TensorSpec
from alfish.types import Experience, Nest, TimeStep, replace


@configurable
class FrameStacker(DataTransformer):
    """The last frames, oldest first; an episode starts with copies of its first one.

    Frames with channels and vectors are joined along `stack_axis`; numbers and grey pictures, which have no axis to
    spare, are stacked along a new one. With 4 frames and axis 0:

    | frame | becomes |
    |---|---|
    | `()` | `(4,)` |
    | `(N,)` | `(4 N,)` |
    | `(H, W)` | `(4, H, W)` |
    | `(C, H, W)` | `(4 C, H, W)` |

    Args:
        observation_spec: of what comes in.
        stack_size: number of frames.
        stack_axis: of a frame, where they are joined; -1 is the last one, for channels-last pictures.
        fields: paths of leaves of the observation; None: every leaf but an action mask.
    """

    tier = Tier.READS_REPLAY

    def __init__(
        self,
        observation_spec: Nest,
        stack_size: Annotated[int, Range(min=1)] = 4,
        stack_axis: int = 0,
        fields: Sequence[str] | None = None,
    ) -> None:
        chosen = Fields("FrameStacker", observation_spec, fields)
        stacks = [
            _Stack(spec, stack_size, stack_axis, path) for path, spec in zip(chosen.paths, chosen.specs, strict=True)
        ]
        super().__init__(
            observation_spec,
            chosen.put(observation_spec, [stack.spec for stack in stacks]),
            state_spec=[TensorSpec((stack_size - 1, *spec.shape), spec.dtype) for spec in chosen.specs],
        )
        self._fields, self._stacks, self._num_frames = chosen, stacks, stack_size
        self.num_earlier_steps = stack_size - 1

    @property
    def paths(self) -> list[str]:
        """Of the leaves that are stacked."""
        return self._fields.paths

    def transform_timestep(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        is_first = time_step.is_first()
        any_first = bool(is_first.any())  # in most steps there is none, and pictures are large
        stacked, rest = [], []
        for stack, frame, earlier in zip(self._stacks, self._fields.select(time_step.observation), state, strict=True):
            frame = frame.unsqueeze(1)
            if any_first:
                earlier = torch.where(is_first.reshape(-1, *(1,) * (frame.dim() - 1)), frame, earlier)
            frames = torch.cat((earlier, frame), 1)  # [B, stack_size, ...]
            stacked.append(stack(frames))
            rest.append(frames[:, 1:])
        return replace(time_step, observation=self._fields.put(time_step.observation, stacked)), rest

    def transform_experience(self, experience: Experience, replay: StoredExperience) -> Experience:
        info, time_step = experience.batch_info, experience.time_step
        env_ids, starts = torch.as_tensor(info.env_ids), torch.as_tensor(info.positions)
        times = starts + torch.arange(experience.length + 1).unsqueeze(1)  # [T + 1, B]
        begins = replay.episode_begin(env_ids.expand_as(times), times)
        ages = torch.arange(self._num_frames - 1, -1, -1)
        wanted = torch.maximum(times.unsqueeze(-1) - ages, begins.unsqueeze(-1))  # [T + 1, B, stack_size]
        env_ids = env_ids.unsqueeze(-1).expand_as(wanted)
        stacked = [
            stack(replay.get_field(path, env_ids, wanted))
            for path, stack in zip(self._fields.stored_paths(), self._stacks, strict=True)
        ]
        observation = self._fields.put(time_step.observation, stacked)
        return replace(experience, time_step=replace(time_step, observation=observation))


class _Stack:
    """From frames `[..., stack_size, *frame]` to what `spec` describes."""

    def __init__(self, frame: TensorSpec, size: int, axis: int, path: str) -> None:
        rank = len(frame.shape)
        self._joins = rank in (1, 3)  # else there is no axis to join along, and a new one is made
        axes = rank if self._joins else rank + 1
        if not -axes <= axis < axes:
            raise ConfigError(
                f"FrameStacker.stack_axis = {axis}: {path or 'the observation'} of shape {frame.shape} has "
                f"{axes} place(s) to stack along, from {-axes} to {axes - 1}"
            )
        self._rank = rank
        self._axis = axis % axes
        self.spec = self._stacked_spec(frame, size)

    def __call__(self, frames: torch.Tensor) -> torch.Tensor:
        stack_at = frames.dim() - self._rank - 1
        moved = frames.movedim(stack_at, stack_at + self._axis)
        return moved.flatten(stack_at + self._axis, stack_at + self._axis + 1) if self._joins else moved

    def _stacked_spec(self, frame: TensorSpec, size: int) -> TensorSpec:
        shape = tuple(self(torch.empty(size, *frame.shape, device="meta")).shape)
        if not isinstance(frame, BoundedTensorSpec):
            return TensorSpec(shape, frame.dtype)

        def stacked(bound: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            return self(torch.tensor(np.stack([bound] * size))).numpy()

        return BoundedTensorSpec(shape, frame.dtype, stacked(frame.minimum), stacked(frame.maximum))
