"""Transformers one after the other, in an order that works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from alfish.algorithms.transformers.base import DataTransformer, StoredExperience
from alfish.algorithms.transformers.frame_stacker import FrameStacker
from alfish.algorithms.transformers.hindsight import HindsightExperienceTransformer
from alfish.config.problems import ConfigProblems, Problem
from alfish.types import Experience, Nest, TimeStep

_OPTION = "TrainerConfig.data_transformer_ctor"


def make_data_transformer(
    ctors: Callable[..., DataTransformer] | Sequence[Callable[..., DataTransformer]] | None, observation_spec: Nest
) -> DataTransformer:
    """What `TrainerConfig.data_transformer_ctor` asks for.

    Args:
        ctors: one, several or none; each is called with `observation_spec`, that of the one before it.
        observation_spec: the environments'.
    """
    if ctors is None:
        return DataTransformer(observation_spec)
    return SequentialDataTransformer(observation_spec, ctors if isinstance(ctors, Sequence) else [ctors])


class SequentialDataTransformer(DataTransformer):
    """Applies several transformers in order; each sees what the one before it made.

    The raw time step is kept first, then come those that read replay, then all others; another order is an error.

    Args:
        observation_spec: of what comes in.
        data_transformer_ctors: each is called with `observation_spec`, that of the one before it.
    """

    def __init__(
        self, observation_spec: Nest, data_transformer_ctors: Sequence[Callable[..., DataTransformer]]
    ) -> None:
        spec, made = observation_spec, []
        for ctor in data_transformer_ctors:
            made.append(_made(ctor(observation_spec=spec)))
            spec = made[-1].transformed_observation_spec
        super().__init__(observation_spec, spec, state_spec=[transformer.state_spec for transformer in made])
        _check_order(made)
        _check_goals(made)
        self.transformers = nn.ModuleList(made)
        self._transformers = tuple(made)  # a ModuleList is slow to walk
        if made:
            self.tier = max(transformer.tier for transformer in made)
        self.num_earlier_steps = sum(transformer.num_earlier_steps for transformer in made)

    def check_use(self, on_policy: bool, sequence_length: int) -> None:
        for transformer in self._transformers:
            transformer.check_use(on_policy, sequence_length)

    def transform_timestep(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        after = []
        for transformer, before in zip(self._transformers, state, strict=True):
            time_step, its_state = transformer.transform_timestep(time_step, before)
            after.append(its_state)
        return time_step, after

    def transform_experience(self, experience: Experience, replay: StoredExperience) -> Experience:
        for transformer in self._transformers:
            experience = transformer.transform_experience(experience, replay)
        return experience


def _made(value: Any) -> DataTransformer:
    if not isinstance(value, DataTransformer):
        raise _problem(f"made a {type(value).__name__}, which is not a DataTransformer")
    return value


def _check_order(transformers: Sequence[DataTransformer]) -> None:
    right = sorted(transformers, key=lambda transformer: transformer.tier)
    if right == list(transformers):
        return
    names = ", ".join(f"@{type(transformer).__name__}" for transformer in right)
    raise _problem(
        "replay holds raw data, so the raw time step is kept first, then come those that read replay, then all "
        f"others. The right order:\n    {_OPTION} = [{names}]"
    )


def _check_goals(transformers: Sequence[DataTransformer]) -> None:
    """Frames are read from replay, where goals are not relabelled."""
    stacked = {path for each in transformers if isinstance(each, FrameStacker) for path in each.paths}
    goals = {path for each in transformers if isinstance(each, HindsightExperienceTransformer) for path in each.paths}
    both = sorted(stacked & goals)
    if both:
        raise _problem(
            f"FrameStacker stacks {' and '.join(both)}, which HindsightExperienceTransformer relabels. Set "
            "FrameStacker.fields to the other fields of the observation"
        )


def _problem(message: str) -> ConfigProblems:
    return ConfigProblems([Problem((_OPTION,), message)])
