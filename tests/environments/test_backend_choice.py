from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish.environments import backend_choice
from alfish.environments.backend_choice import Choice, Form, choose, usable_cores
from alfish.environments.environment import Environment
from alfish.environments.recipe import Recipe
from alfish.environments.sync import SyncEnvironment
from tests.environments.scripted import MID, TERMINATED, ScriptedEnv


class SlowEnv(ScriptedEnv):
    """Takes its time."""

    closed: int = 0

    def __init__(self, seconds: float, size: int = 2) -> None:
        super().__init__([MID] * 4 + [TERMINATED])
        self._seconds = seconds
        if size != 2:
            self.observation_space = gym.spaces.Box(-1, 1, (size,), np.float64)

    def step(self, action: Any) -> Any:
        if self._seconds:
            time.sleep(self._seconds)
        _, *rest = super().step(action)
        return np.zeros(self.observation_space.shape or ()), *rest

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape or ()), {}

    def close(self) -> None:
        SlowEnv.closed += 1


def slow(milliseconds: float) -> Recipe:
    return Recipe("slow", lambda env_name: SlowEnv(milliseconds / 1e3))


def form(milliseconds: float, size: int = 2) -> Callable[[], Environment]:
    def make() -> Environment:
        recipe = Recipe("form", lambda env_name: SlowEnv(milliseconds / 1e3, size))
        return SyncEnvironment([recipe.build(index) for index in range(4)])

    return make


def never(env_name: str) -> Any:
    pytest.fail("nothing is to be measured")  # no Exception, so it is not taken for one of the environment


def microseconds(words: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"([\d,]+) us", words)]


@pytest.mark.parametrize(("cores", "least"), [(2, 500), (4, 273), (64, 222)])
def test_slow_environments_go_to_processes_and_cheap_ones_stay(cores: int, least: int) -> None:
    cheap, costly = (choose(slow(milliseconds), 8, cores, {}) for milliseconds in (0, 2))
    assert cheap.backend == "sync"
    assert re.fullmatch(rf"sync \(slow: \d+ us per step; processes would pay from about {least} us\)", cheap.words)
    assert costly.backend == "process"
    assert re.fullmatch(rf"process \(slow: [\d,]+ us per step; processes pay from about {least} us\)", costly.words)
    assert 2000 <= microseconds(costly.words)[0] < 6000


@pytest.mark.parametrize(("number", "cores"), [(1, 64), (8, 1), (17, 2)])
def test_nothing_is_measured_where_processes_are_out_of_the_question(number: int, cores: int) -> None:
    assert choose(Recipe("any", never), number, cores, {}) == Choice("sync")


def test_one_environment_needs_no_vector_form() -> None:
    assert choose(Recipe("any", never), 1, 2, {"vector": lambda: never("any")}) == Choice("sync")


def test_measuring_takes_no_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.perf_counter()
    assert choose(slow(90), 8, 2, {}).backend == "process"
    assert time.perf_counter() - began < 1.0
    steps: list[int] = []
    monkeypatch.setattr(SlowEnv, "_observe", lambda self: steps.append(self.steps))
    choose(slow(0), 8, 2, {})
    assert len(steps) < 40


@pytest.mark.parametrize(
    ("forms", "chosen"),
    [
        ({"vector": form(0)}, "vector"),
        ({"vector": form(1), "envpool": form(0)}, "envpool"),
        ({"vector": form(20)}, "sync"),
    ],
)
def test_the_fastest_of_all(forms: dict[Form, Any], chosen: str) -> None:
    choice = choose(slow(2), 4, 1, forms)
    assert choice.backend == chosen
    assert choice.words.startswith(f"{chosen} (a step of 4 x slow: sync ")
    assert len(microseconds(choice.words)) == len(forms) + 1


def test_what_beginning_episodes_takes_counts() -> None:
    class SlowToBegin(SlowEnv):
        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            time.sleep(0.02)
            return super().reset(seed=seed)

    choice = choose(Recipe("slow to begin", lambda env_name: SlowToBegin(0)), 4, 1, {"vector": form(1)})
    assert choice.backend == "vector"  # though most of its steps take longer


def test_a_form_that_shows_something_else_is_not_taken() -> None:
    choice = choose(slow(2), 4, 1, {"vector": form(0, size=3)})
    assert choice.backend == "sync"
    assert choice.words.endswith("; vector has other observations, actions or rewards)")


def test_others_are_taken_only_where_clearly_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a run that is started again has the same episodes, and those of 'sync' can be gone on with."""
    for vector, envpool, chosen in ((0.9, 0.9, "sync"), (0.7, 0.6, "vector"), (0.9, 0.7, "envpool")):
        seconds = iter([1.0, vector, envpool])
        monkeypatch.setattr(backend_choice, "_batch_seconds", lambda env, seconds=seconds: next(seconds))
        assert choose(slow(0), 4, 1, {"vector": form(0), "envpool": form(0)}).backend == chosen


def test_processes_are_compared_as_well() -> None:
    choice = choose(slow(3), 4, 4, {"vector": form(4)})
    assert choice.backend == "process"
    assert ", process " in choice.words


def test_a_form_that_fails_is_not_taken() -> None:
    def fail() -> Environment:
        raise ValueError("no such game")

    choice = choose(slow(0), 4, 1, {"vector": fail})
    assert choice.backend == "sync"
    assert "vector fails: no such game" in choice.words


def test_what_an_environment_raises_is_left_to_the_run() -> None:
    class Broken(SlowEnv):
        def step(self, action: Any) -> Any:
            raise ValueError

    assert choose(Recipe("broken", lambda env_name: Broken(0)), 8, 2, {}) == Choice("sync")


def test_what_was_measured_is_closed() -> None:
    SlowEnv.closed = 0
    choose(slow(0), 8, 2, {})
    assert SlowEnv.closed == 1
    choose(slow(0), 4, 1, {"vector": form(0)})
    assert SlowEnv.closed == 1 + 4 + 4


def test_measuring_draws_no_random_numbers_from_the_run() -> None:
    class Careless(SlowEnv):
        def step(self, action: Any) -> Any:
            random.random()
            np.random.random()
            torch.rand(1)
            return super().step(action)

    def draw() -> list[float]:
        return [random.random(), np.random.random(), torch.rand(1).item()]

    def seed() -> None:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)

    careless = Recipe("careless", lambda env_name: Careless(0))
    seed()
    expected = draw()
    for forms in ({}, {"vector": form(0)}):
        seed()
        assert choose(careless, 4, 2, forms).words
        assert draw() == expected


def test_learners_share_the_cores_and_workers_have_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_choice.os, "sched_getaffinity", lambda pid: set(range(8)))
    assert usable_cores() == 8
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert usable_cores() == 2
    monkeypatch.setattr(backend_choice.multiprocessing, "parent_process", lambda: object())
    assert usable_cores() == 1
