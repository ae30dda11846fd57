from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from alfish.environments import pool
from alfish.environments.backend_choice import usable_cores
from alfish.environments.create import create_environment
from alfish.environments.pool import EnvpoolVector
from alfish.errors import ConfigError


def test_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(ConfigError, match=r"pip install 'alfish\[envpool\]'"):
        create_environment("CartPole-v1", backend="envpool")


@pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="needs envpool")
def test_stream() -> None:
    with create_environment("CartPole-v1", num_parallel_environments=4, backend="envpool", max_episode_steps=25) as env:
        assert not env.exact_resume
        assert env.action_spec.num_values == 2
        first = env.reset(seed=1)
        assert first.observation.shape == (4, 4)
        again = env.reset(seed=1).observation
        assert torch.equal(first.observation, again)
        assert not torch.equal(env.reset(seed=2).observation, again)
        generator = torch.Generator().manual_seed(0)
        lengths = torch.zeros(4)
        previous = first
        ends = {0.0: 0, 1.0: 0}
        for _ in range(300):
            step = env.step(torch.randint(0, 2, (4,), generator=generator))
            assert torch.equal(step.is_first(), previous.is_last())
            assert torch.equal(step.reward, (~step.is_first()).float())
            lengths = torch.where(step.is_first(), 0, lengths + 1)
            for row in step.is_last().nonzero()[:, 0].tolist():
                ends[float(step.discount[row])] += 1
                # A time limit bootstraps, a fallen pole does not.
                assert step.discount[row] == 0 or lengths[row] == 25
            previous = step
        assert min(ends.values()) > 0


@pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="needs envpool")
def test_ids_are_those_of_envpool() -> None:
    # envpool's Catch is not in Gymnasium's registry.
    with create_environment("Catch-v0", num_parallel_environments=2, backend="envpool") as env:
        assert env.reset(seed=0).is_first().all()


@pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="needs envpool")
def test_an_id_that_envpool_does_not_have() -> None:
    with pytest.raises(ConfigError, match="can run with 'sync', 'process'"):
        create_environment("alfish/ValueUnittest-v0", backend="envpool")


@pytest.mark.parametrize(
    ("num_envs", "options", "usable", "expected"),
    [
        (8, {}, 4, 0),
        (8, {"num_threads": 4}, 4, 0),
        (8, {"thread_affinity_offset": 2}, 4, 2),
        (3, {}, 4, None),  # a core is left
        (8, {"num_threads": 3}, 4, None),
        (8, {"num_threads": 5}, 4, None),
        (8, {}, 2, None),  # the others are not ours
    ],
)
def test_threads_that_fill_the_machine_get_a_core_each(
    num_envs: int, options: dict[str, int], usable: int, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    fake = mock.MagicMock()
    fake.make = lambda env_name, **given: made.append(given) or mock.MagicMock()
    monkeypatch.setitem(sys.modules, "envpool", fake)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(pool, "usable_cores", lambda: usable)
    EnvpoolVector("CartPole-v1", num_envs, options)
    assert [each.get("thread_affinity_offset") for each in made] == [expected]


@pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="needs envpool")
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs threads that can be pinned")
def test_envpool_does_it() -> None:
    cores = usable_cores()
    if cores != os.cpu_count() or cores == 1:
        pytest.skip("needs a machine of its own")
    before = {int(each.name) for each in Path("/proc/self/task").iterdir()}
    with create_environment("CartPole-v1", num_parallel_environments=cores, backend="envpool") as env:
        env.reset(seed=0)
        threads = {int(each.name) for each in Path("/proc/self/task").iterdir()} - before
        alone = [os.sched_getaffinity(each) for each in threads if len(os.sched_getaffinity(each)) == 1]
    assert sorted(core for each in alone for core in each) == list(range(cores))
