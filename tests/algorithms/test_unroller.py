"""Experience that is made in this process. Whole episodes are tried in `test_rl_algorithm`."""

from __future__ import annotations

import pytest
import torch

from alfish import nest
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.unroller import LocalUnroller, Unroller
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.summary.metrics import EpisodeMetrics
from alfish.summary.timers import Timers
from alfish.types import StepType
from tests.algorithms.test_actor import Counter, make


@pytest.fixture
def unroller() -> Unroller:
    """Two environments with episodes of three steps; observations are shown doubled."""
    _, env, algorithm = make()
    made = LocalUnroller(algorithm, env, TrainerConfig(algorithm_ctor=Counter), Timers(), seed=3)
    made.start()
    return made


def test_every_step_is_given_once_and_in_order(unroller: Unroller) -> None:
    assert unroller.time_step.is_first().all()
    parts = [unroller.collect(2, 2), unroller.collect(3, 3)]
    kinds = []
    for part in parts:
        assert part is not None
        kinds.append(part.time_steps.step_type[:, 0].tolist())
    first, mid, last = StepType.FIRST, StepType.MID, StepType.LAST
    assert kinds == [[first, mid, mid], [mid, last, first, mid]], "an unroll begins where the one before ended"
    assert unroller.time_step.step_type.tolist() == [mid, mid]


def test_nothing_is_collected_when_nothing_is_asked_for(unroller: Unroller) -> None:
    assert unroller.collect(0, 0) is None
    assert unroller.time_step.is_first().all()


def test_states_are_those_before_the_actions(unroller: Unroller) -> None:
    unrolled = unroller.collect(3, 3)
    assert unrolled is not None
    assert unrolled.experience.state[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert unrolled.experience.final_state[0] == 3.0
    assert not unrolled.experience.final_state.requires_grad


@pytest.mark.parametrize(("on_policy", "scale"), [(False, 1.0), (True, 2.0)])
def test_replay_gets_raw_data_and_an_on_policy_algorithm_what_it_saw(on_policy: bool, scale: float) -> None:
    _, env, algorithm = make(env_name="alfish/ObservationRewardProbe-v0")
    algorithm.on_policy = on_policy
    unroller = LocalUnroller(algorithm, env, TrainerConfig(algorithm_ctor=Counter), Timers(), seed=3)
    unroller.start()
    unrolled = unroller.collect(6, 6)
    assert unrolled is not None
    assert unrolled.time_steps.observation.abs().min() > 0
    assert (unrolled.experience.time_step.observation == scale * unrolled.time_steps.observation).all()


def test_a_single_step_for_replay_is_stored_and_counted_without_being_stacked(monkeypatch: pytest.MonkeyPatch) -> None:
    _, env, algorithm = make()
    algorithm.on_policy = False
    config = TrainerConfig(algorithm_ctor=Counter)
    unroller, same = (LocalUnroller(algorithm, env, config, Timers(), seed=3) for _ in range(2))
    replay = ReplayBuffer(env.batch_size, 20, torch.Generator())
    metrics = EpisodeMetrics(env.batch_size)
    unroller.start()
    for number in range(9):
        unrolled = unroller.collect(1, 1)
        assert unrolled is not None
        with monkeypatch.context() as patched:
            if number > 0:  # the first time step is not stored yet
                patched.setattr(nest, "stack", lambda *_: pytest.fail("nobody looks at it"))
            unrolled.store(replay)
            unrolled.count(metrics)
        assert unrolled.experience.length == 1
        assert torch.equal(unrolled.experience.state[0], replay.get(torch.arange(2), replay.newest - 1, 2).state[0])
    same.start()
    block = same.collect(9, 9)
    assert block is not None
    stored, expected = replay.gather_all(), block.experience
    for name in ("time_step", "action", "rollout_info", "state"):
        pair = nest.leaves(getattr(stored, name)), nest.leaves(getattr(expected, name))
        assert all(torch.equal(one, other) for one, other in zip(*pair, strict=True)), name
    counted = EpisodeMetrics(env.batch_size)
    block.count(counted)
    assert metrics.results() == counted.results()


def test_collecting_goes_on_after_a_rest_that_nobody_needed(unroller: Unroller) -> None:
    unroller.rest()
    unroller.rest()
    assert unroller.collect(1, 1) is not None
