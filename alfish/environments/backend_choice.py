"""Which backend suits the environments: 'auto' and 'fastest', by a short measurement."""

from __future__ import annotations

import copy
import multiprocessing
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import mean, median
from time import perf_counter
from typing import Literal

import numpy as np
import torch

from alfish import nest, specs
from alfish.environments.environment import Environment
from alfish.environments.recipe import Recipe
from alfish.environments.sync import SyncEnvironment

Form = Literal["sync", "process", "vector", "envpool"]

_SEED = 0
_MOST_STEPS = 25
_MOST_SECONDS = 0.2
# Steps of all environments at once; in so many some episodes end, and what beginning others takes counts.
_MOST_BATCH_STEPS = 400
# What it takes to send an action to a process, to wake it, and to hear from it, for each environment.
_ROUND_TRIP = 150e-6
# Processes need memory and time to start, and vector forms have other episodes than single environments, which a run
# that is started again should meet again: what is hardly faster is not taken.
_CLEARLY = 0.8
# More of them than this share a core, so that a run does not fill the memory unasked.
_MOST_PROCESSES_PER_CORE = 8
# So many single environments tell how long any number of them takes.
_ENOUGH = 8


@dataclass(frozen=True)
class Choice:
    """A backend, and why."""

    backend: Form
    words: str = ""  # with what was measured; "" when nothing was


def usable_cores() -> int:
    """Cores for environments; several learners on one machine share them, and workers have none but their own."""
    if multiprocessing.parent_process() is not None:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))


def choose(recipe: Recipe, batch_size: int, cores: int, forms: Mapping[Form, Callable[[], Environment]]) -> Choice:
    """'sync', which keeps exact resume, unless another one is clearly faster; then that, and so on.

    Nothing is measured where there is no choice. What an environment raises is left to the run, which says it with
    all that belongs to it.

    Args:
        recipe: of single environments.
        batch_size: how many.
        cores: for processes.
        forms: makes `batch_size` environments of a vector form. Empty for exact resume: the episodes of 'sync' and
            'process' are the same, so either goes on with those of the other.
    """
    if batch_size == 1:
        return Choice("sync")
    try:
        if forms:
            return _choose_of_all(recipe, batch_size, cores, forms)
        return _choose_of_single(recipe, batch_size, cores)
    except Exception:
        return Choice("sync")


def _choose_of_single(recipe: Recipe, batch_size: int, cores: int) -> Choice:
    if not _may_be_processes(batch_size, cores):
        return Choice("sync")
    seconds, least = step_seconds(recipe), _least_for_processes(batch_size, cores)
    is_slow = seconds > least
    backend: Form = "process" if is_slow else "sync"
    pay = "pay" if is_slow else "would pay"
    return Choice(
        backend, f"{backend} ({recipe.env_name}: {_us(seconds)} per step; processes {pay} from about {_us(least)})"
    )


def _choose_of_all(
    recipe: Recipe, batch_size: int, cores: int, forms: Mapping[Form, Callable[[], Environment]]
) -> Choice:
    number = min(batch_size, _ENOUGH)
    with SyncEnvironment([recipe.build(index) for index in range(number)]) as single:
        sync = _batch_seconds(single) * batch_size / number
    seconds: dict[Form, float] = {"sync": sync}
    remarks: list[str] = []
    for form, make in forms.items():
        try:
            with make() as env:
                if _is_like(env, single):
                    seconds[form] = _batch_seconds(env)
                else:
                    remarks.append(f"{form} has other observations, actions or rewards")
        except Exception as error:
            remarks.append(f"{form} fails: {error}")
    if _may_be_processes(batch_size, cores) and sync / batch_size > _least_for_processes(batch_size, cores):
        seconds["process"] = _in_processes(sync / batch_size, batch_size, cores) * batch_size
    backend: Form = "sync"
    for form in seconds:
        if seconds[form] < _CLEARLY * seconds[backend]:
            backend = form
    measured = ", ".join(f"{form} {_us(time)}" for form, time in seconds.items())
    return Choice(backend, f"{backend} (a step of {batch_size} x {recipe.env_name}: {'; '.join([measured, *remarks])})")


def step_seconds(recipe: Recipe) -> float:
    """What a step of one environment takes, with random actions: the median, so that pauses do not count."""
    with _same_random_numbers_after(), closing(recipe.build(0)) as env:
        actions = copy.deepcopy(env.action_space)  # others may draw from it
        actions.seed(_SEED)
        env.reset(seed=_SEED)

        def step() -> float:
            action = actions.sample()
            began = perf_counter()
            _, _, terminated, truncated, _ = env.env.step(action)
            seconds = perf_counter() - began
            if terminated or truncated:
                env.reset()
            return seconds

        return median(_times(step, _MOST_STEPS))


def _batch_seconds(env: Environment) -> float:
    """What a step of all environments takes on the whole: beginning episodes counts, pauses of the machine do not."""
    generator = torch.Generator().manual_seed(_SEED)

    def step() -> float:
        action = specs.sample(env.action_spec, env.batch_size, generator=generator)
        began = perf_counter()
        env.step(action)
        return perf_counter() - began

    with _same_random_numbers_after():
        env.reset(seed=_SEED)
        seconds = _times(step, _MOST_BATCH_STEPS)
    parts = max(1, len(seconds) // _MOST_STEPS)
    return median(mean(seconds[part::parts]) for part in range(parts))


def _times(step: Callable[[], float], most: int) -> list[float]:
    """Of as many steps as a fraction of a second has time for; the first one warms up, unless it takes all of it."""
    first = step()
    seconds: list[float] = []
    left = _MOST_SECONDS - first
    while len(seconds) < most and left > 0:
        seconds.append(step())
        left -= seconds[-1]
    return seconds or [first]


def _may_be_processes(batch_size: int, cores: int) -> bool:
    return batch_size > 1 and cores > 1 and batch_size <= _MOST_PROCESSES_PER_CORE * cores


def _in_processes(seconds: float, batch_size: int, cores: int) -> float:
    """What a step of one environment comes to, when all are stepped side by side."""
    return seconds / min(batch_size, cores) + _ROUND_TRIP


def _least_for_processes(batch_size: int, cores: int) -> float:
    """How long a step takes at least, where processes are clearly faster: the solution of
    `_in_processes(seconds) = _CLEARLY * seconds`."""
    return _ROUND_TRIP / (_CLEARLY - 1 / min(batch_size, cores))


def _is_like(one: Environment, other: Environment) -> bool:
    """Whether what they show looks the same; many environments only guess the bounds of that."""
    shown, also = (nest.map(lambda leaf: (leaf.shape, leaf.dtype), env.observation_spec) for env in (one, other))
    return bool(shown == also and (one.action_spec, one.reward_spec) == (other.action_spec, other.reward_spec))


@contextmanager
def _same_random_numbers_after() -> Iterator[None]:
    """Environments of strangers may draw from the global generators; how often depends on the clock here."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} us"
