from __future__ import annotations

import importlib.util
import sys

import pytest
import torch

from alfish.environments.create import create_environment
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
