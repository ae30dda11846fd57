"""Compiled acting answers what the algorithm answers; where it cannot be compiled, the algorithm answers itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch._inductor.compile_fx import compile_fx as COMPILE_FX

from alfish import nest
from alfish.algorithms import compiled_rollout
from alfish.algorithms.compiled_rollout import CompiledRolloutStep
from alfish.algorithms.ddpg import DdpgAlgorithm
from alfish.algorithms.dqn import DqnAlgorithm
from alfish.algorithms.exploration_noise import GaussianNoise
from alfish.algorithms.ppo import PPOAlgorithm
from alfish.algorithms.sac import SacAlgorithm
from alfish.optimizers.schedulers import LinearScheduler
from alfish.types import AlgStep, TimeStep, replace
from tests.algorithms.off_policy_runs import start_replay
from tests.algorithms.runs import start_run
from tests.algorithms.test_update_step import CONTINUOUS, DDPG_NETWORKS, SAC_NETWORKS, Q, ppo

ALGORITHMS: dict[str, Any] = {
    "ppo": partial(start_run, PPOAlgorithm),
    "ppo of continuous actions": partial(start_run, PPOAlgorithm, "Pendulum-v1"),
    "ppo with memory": partial(start_run, PPOAlgorithm, recurrent=True, mini_batch_length=4),
    "sac": partial(start_replay, SacAlgorithm, env_kwargs=CONTINUOUS, **SAC_NETWORKS),
    "ddpg": partial(start_replay, DdpgAlgorithm, env_kwargs=CONTINUOUS, **DDPG_NETWORKS),
    "dqn": partial(start_replay, DqnAlgorithm, q_network_ctor=Q, rollout_epsilon_greedy=0.5),
}


class _Telling(PPOAlgorithm):
    def rollout_step(self, time_step: TimeStep, state: Any) -> AlgStep:
        self.summary.scalar("acting", 1.0)
        return super().rollout_step(time_step, state)


class _Impatient(PPOAlgorithm):
    def rollout_step(self, time_step: TimeStep, state: Any) -> AlgStep:
        step = super().rollout_step(time_step, state)
        return step if self.progress.iterations < 9 else replace(step, output=step.output * 0)


class _Rounding(PPOAlgorithm):
    """What the scheduler says now must not become a constant of the graph."""

    schedule = LinearScheduler("iterations", [(0, 1.0), (9, 0.0)])

    def rollout_step(self, time_step: TimeStep, state: Any) -> AlgStep:
        step = super().rollout_step(time_step, state)
        return replace(step, output=step.output * round(float(self.schedule(self.progress))))


class _Choosy(PPOAlgorithm):
    def rollout_step(self, time_step: TimeStep, state: Any) -> AlgStep:
        step = super().rollout_step(time_step, state)
        return step if step.output.sum() < 9 else replace(step, output=step.output * 0)


@pytest.fixture(autouse=True)
def _as_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", lambda graph, examples: graph)


def steps(algorithm: Any, act: Any, number: int = 5) -> list[AlgStep]:
    """What is done in the first steps, each in another state of the environments."""
    time_step, found = algorithm._env.reset(seed=1), []
    state = nest.map(lambda spec: spec.zeros(algorithm._env.batch_size), algorithm.rollout_state_spec)
    with torch.no_grad():
        for _ in range(number):
            found.append(act(time_step, state))
            time_step, state = algorithm._env.step(found[-1].output), found[-1].state
    return found


def assert_same(found: list[AlgStep], expected: list[AlgStep]) -> None:
    for here, there in zip(found, expected, strict=True):
        assert nest.same_structure(here, there)
        torch.testing.assert_close(nest.leaves(here), nest.leaves(there), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_does_the_same(name: str) -> None:
    one, other = ALGORITHMS[name](), ALGORITHMS[name]()
    act = CompiledRolloutStep(other)
    assert_same(steps(other, act), steps(one, one.rollout_step))
    assert act.compilation == "on"
    assert torch.equal(one.generator.get_state(), other.generator.get_state())


def test_it_acts_with_the_present_parameters() -> None:
    algorithm = ALGORITHMS["ppo of continuous actions"]()
    act = CompiledRolloutStep(algorithm)
    before = steps(algorithm, act, 1)[0].info.action_distribution.mean
    with torch.no_grad():
        for parameter in algorithm.parameters():
            parameter.add_(0.1)
    after = steps(algorithm, act, 1)[0].info.action_distribution.mean
    assert not torch.allclose(before, after)
    expected = steps(algorithm, algorithm.rollout_step, 1)[0].info.action_distribution.mean
    torch.testing.assert_close(after, expected)


def test_answers_are_never_overwritten() -> None:
    algorithm = ALGORITHMS["ppo"]()
    first, *others = steps(algorithm, CompiledRolloutStep(algorithm))
    kept = first.info.action_distribution.logits.clone()
    assert not torch.equal(others[0].info.action_distribution.logits, kept)
    assert torch.equal(first.info.action_distribution.logits, kept)


def test_inputs_of_another_layout_are_answered_by_the_algorithm() -> None:
    """The graph knows where the numbers lie, and would take others for them."""
    algorithm = ALGORITHMS["ppo of continuous actions"]()
    act = CompiledRolloutStep(algorithm)
    steps(algorithm, act, 1)
    time_step: TimeStep = algorithm._env.reset(seed=2)
    other = replace(time_step, observation=time_step.observation.t().contiguous().t())
    with torch.no_grad():
        found, expected = (act(each, ()).info.action_distribution.mean for each in (other, time_step))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (partial(start_run, _Telling), "it writes summaries while it acts"),
        (partial(start_run, _Choosy), "what to do is decided by the values of tensors"),
        (partial(start_run, _Rounding), "what to do is decided by the values of tensors"),
        (
            partial(start_run, _Impatient),
            "what it does changes with the progress of the run in another way than by a scheduler",
        ),
    ],
)
def test_what_cannot_be_compiled_is_answered_by_the_algorithm(make: Any, reason: str) -> None:
    one, other = make(), make()
    act = CompiledRolloutStep(other)
    assert_same(steps(other, act), steps(one, one.rollout_step))
    assert act.compilation == f"off: {reason}"


@pytest.mark.parametrize(
    "make",
    [
        partial(
            start_replay,
            DqnAlgorithm,
            q_network_ctor=Q,
            rollout_epsilon_greedy=LinearScheduler("iterations", [(0, 1.0), (9, 0.0)]),
        ),
        partial(
            start_replay,
            DdpgAlgorithm,
            env_kwargs=CONTINUOUS,
            exploration_noise_ctor=partial(GaussianNoise, stddev=LinearScheduler("iterations", [(0, 0.1), (9, 0.0)])),
            **DDPG_NETWORKS,
        ),
    ],
)
def test_schedulers_are_followed(make: Any) -> None:
    one, other = make(), make()
    act = CompiledRolloutStep(other)
    for iteration in (0, 4, 8):
        one.progress.iterations = other.progress.iterations = iteration
        assert_same(steps(other, act, 20), steps(one, one.rollout_step, 20))
    assert act.compilation == "on"


def test_runs_act_by_it_where_updates_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    acted: list[Any] = []
    call = CompiledRolloutStep.__call__
    monkeypatch.setattr(CompiledRolloutStep, "__call__", lambda *given: (acted.append(given), call(*given))[1])
    algorithm = ppo("on")
    algorithm.train_iter()
    assert len(acted) == 8
    assert algorithm.compilation == {"compile": "on", "compile_acting": "on"}
    algorithm = ppo("off")
    algorithm.train_iter()
    assert len(acted) == 8
    assert algorithm.compilation == {"compile": "off"}


def test_a_compiler_that_fails_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("out of registers\nand a long story")

    monkeypatch.setattr(compiled_rollout, "compile_graph", fail)
    algorithm = ALGORITHMS["ppo"]()
    act = CompiledRolloutStep(algorithm)
    assert len(steps(algorithm, act)) == 5
    assert act.compilation == "off: out of registers"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_inductor_does_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", COMPILE_FX)
    one, other = ALGORITHMS[name](), ALGORITHMS[name]()
    act = CompiledRolloutStep(other)
    assert_same(steps(other, act), steps(one, one.rollout_step))
    assert act.compilation == "on"
