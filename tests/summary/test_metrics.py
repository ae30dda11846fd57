from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alfish import nest
from alfish.summary.metrics import EpisodeMetrics
from alfish.summary.reward_reduction import RewardReduction
from alfish.types import StepType, TimeStep

F, M, L = StepType.FIRST, StepType.MID, StepType.LAST
NAN = float("nan")


def steps(step_type: list[list[int]], reward: list[Any], **info: list[list[float]]) -> TimeStep:
    """Time-major lists as a stacked time step."""
    types = torch.tensor(step_type, dtype=torch.int32)
    return TimeStep(
        step_type=types,
        reward=torch.tensor(reward, dtype=torch.float32),
        discount=torch.ones(types.shape),
        observation=(),
        prev_action=(),
        env_id=torch.arange(types.shape[1]).expand(types.shape),
        env_info={key.replace("__", "@"): torch.tensor(value) for key, value in info.items()},
    )


# Two environments: episodes of 3 and 1 steps in the first, one of 4 steps and one under way in the second.
TYPES = [[F, F], [M, M], [M, M], [L, M], [F, L], [L, F], [F, M]]
REWARDS = [[9, 9], [1, 10], [2, 20], [3, 30], [9, 40], [5, 9], [9, 1]]


def test_counts_and_averages():
    metrics = EpisodeMetrics(2, window=10)
    metrics.observe(steps(TYPES, REWARDS))
    assert metrics.results() == {
        "EnvironmentSteps": 9,
        "NumberOfEpisodes": 3,
        "AverageReturn": (6 + 100 + 5) / 3,
        "AverageEpisodeLength": (3 + 4 + 1) / 3,
    }
    assert metrics.latest("AverageReturn") == [6.0, 100.0, 5.0]
    assert metrics.average_return == 37.0


def test_averages_appear_with_the_first_episode_that_ended():
    metrics = EpisodeMetrics(2)
    assert metrics.average_return is None
    metrics.observe(steps(TYPES[:3], REWARDS[:3]))
    assert metrics.results() == {"EnvironmentSteps": 4, "NumberOfEpisodes": 0}


def test_the_window_keeps_exactly_the_latest_episodes():
    metrics = EpisodeMetrics(2, window=2)
    metrics.observe(steps(TYPES, REWARDS))
    assert metrics.latest("AverageReturn") == [100.0, 5.0]
    assert metrics.latest("AverageEpisodeLength") == [4.0, 1.0]
    assert metrics.episodes == 3


def test_one_time_step_at_a_time_is_the_same():
    block, stepwise = EpisodeMetrics(2), EpisodeMetrics(2)
    whole = steps(TYPES, REWARDS, distance=REWARDS, speed__step=REWARDS, height__max=REWARDS)
    block.observe(whole)
    for t in range(len(TYPES)):
        stepwise.observe(nest.index(whole, t))
    assert stepwise.state_dict() == block.state_dict()


def test_rows_that_were_taken_in_before_are_left_out():
    whole, overlapping = EpisodeMetrics(2), EpisodeMetrics(2)
    whole.observe(steps(TYPES, REWARDS, distance=REWARDS))
    overlapping.observe(steps(TYPES[:1], REWARDS[:1], distance=REWARDS[:1]))
    for t in range(len(TYPES) - 1):
        pair = slice(t, t + 2)
        overlapping.observe(steps(TYPES[pair], REWARDS[pair], distance=REWARDS[pair]), start=1)
    assert overlapping.state_dict() == whole.state_dict()


def test_long_returns_keep_their_digits_in_steps_as_in_blocks():
    number = 3000
    types, rewards = [[F], *[[M]] * number, [L]], [[0.1]] * (number + 2)
    whole = steps(types, rewards)
    block, stepwise = EpisodeMetrics(1), EpisodeMetrics(1)
    block.observe(whole)
    for t in range(len(types)):
        stepwise.observe(nest.index(whole, t))
    exact = (number + 1) * float(torch.tensor(0.1))
    assert stepwise.average_return == pytest.approx(exact, rel=1e-12)
    assert block.average_return == pytest.approx(exact, rel=1e-12)
    assert stepwise.latest("AverageEpisodeLength") == block.latest("AverageEpisodeLength") == [number + 1]
    assert stepwise.env_steps == block.env_steps == number + 1


def test_vector_returns_one_by_one():
    metrics = EpisodeMetrics(1, reward_shape=(2,))
    metrics.observe(steps([[F], [M], [L]], [[[9, 9]], [[1, -1]], [[2, -2]]]))
    results = metrics.results()
    assert results["AverageReturn/0"] == 3.0
    assert results["AverageReturn/1"] == -3.0
    assert results["AverageReturn"] == metrics.average_return == 0.0  # their sum


def test_vector_returns_are_reduced_episode_by_episode():
    metrics = EpisodeMetrics(1, reward_shape=(2,), reduction=RewardReduction("max", (2,)))
    metrics.observe(steps([[F], [M], [L], [F], [L]], [[[9, 9]], [[1, 5]], [[4, -5]], [[9, 9]], [[0, 7]]]))
    assert metrics.latest("AverageReturn") == [5.0, 7.0]  # of the sums (5, 0) and (0, 7), not of single steps
    assert metrics.average_return == 6.0


def test_environment_info_is_summed_averaged_or_its_maximum_taken():
    metrics = EpisodeMetrics(1)
    metrics.observe(
        steps(
            [[F], [M], [M], [L]],
            [[0], [0], [0], [0]],
            distance=[[50.0], [1.0], [2.0], [4.0]],
            speed__step=[[50.0], [1.0], [NAN], [4.0]],
            height__max=[[50.0], [-3.0], [-1.0], [-2.0]],
        )
    )
    results = metrics.results()
    assert results["AverageEnvInfo/distance"] == 7.0
    assert results["AverageEnvInfo/speed@step"] == 2.5
    assert results["AverageEnvInfo/height@max"] == -1.0


def test_an_episode_without_a_finite_value_takes_no_part():
    metrics = EpisodeMetrics(1)
    types = [[F], [L], [F], [L], [F], [L]]
    success = [[NAN], [1.0], [NAN], [NAN], [NAN], [float("inf")]]
    metrics.observe(steps(types, [[0]] * 6, success=success, best__max=success))
    assert metrics.results()["AverageEnvInfo/success"] == 1.0
    assert metrics.latest("AverageEnvInfo/best@max") == [1.0]
    assert metrics.latest("AverageReturn") == [0.0, 0.0, 0.0]


def test_an_episode_that_starts_anew_without_an_end_is_forgotten():
    metrics = EpisodeMetrics(1)
    metrics.observe(steps([[F], [M]], [[0], [100]]))
    metrics.observe(steps([[F], [M], [F], [L]], [[0], [100], [0], [7]]))
    assert metrics.latest("AverageReturn") == [7.0]
    assert metrics.episodes == 1


def test_saved_metrics_go_on_in_the_middle_of_an_episode():
    whole, first, second = EpisodeMetrics(2), EpisodeMetrics(2), EpisodeMetrics(2)
    whole.observe(steps(TYPES, REWARDS, height__max=REWARDS))
    first.observe(steps(TYPES[:4], REWARDS[:4], height__max=REWARDS[:4]))
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    second.observe(steps(TYPES[4:], REWARDS[4:], height__max=REWARDS[4:]))
    assert second.state_dict() == whole.state_dict()
    assert second.results() == whole.results()


def test_another_number_of_environments_forgets_only_episodes_under_way():
    first, second = EpisodeMetrics(2), EpisodeMetrics(3)
    first.observe(steps(TYPES, REWARDS))
    second.load_state_dict(first.state_dict())
    assert second.results() == first.results()
    second.observe(steps([[M, M, L]], [[1, 2, 3]]))
    assert second.latest("AverageReturn")[-1] == 3.0


def naive(types: list[list[int]], rewards: list[list[float]]) -> tuple[int, list[list[float]]]:
    """The number of environment steps, and the rewards of each episode that ended."""
    episodes, env_steps = [], 0
    under_way: list[list[float]] = [[] for _ in types[0]]
    for row, reward in zip(types, rewards, strict=True):
        for b, step_type in enumerate(row):
            if step_type == F:
                under_way[b] = []
                continue
            env_steps += 1
            under_way[b].append(reward[b])
            if step_type == L:
                episodes.append(under_way[b])
                under_way[b] = []
    return env_steps, episodes


@settings(max_examples=100, deadline=None)
@given(data=st.data(), batch=st.integers(1, 4), cuts=st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_agrees_with_a_plain_loop_however_the_stream_is_cut(data, batch, cuts):
    length = sum(cuts)
    row = st.lists(st.sampled_from([F, M, M, L]), min_size=batch, max_size=batch)
    types = data.draw(st.lists(row, min_size=length, max_size=length))
    rewards = [[float((7 * t + 3 * b) % 11 - 12) for b in range(batch)] for t in range(length)]
    metrics = EpisodeMetrics(batch, window=1000)
    at = 0
    for cut in cuts:
        here = slice(at, at + cut)
        metrics.observe(steps(types[here], rewards[here], best__max=rewards[here]))
        at += cut
    env_steps, episodes = naive(types, rewards)
    assert metrics.env_steps == env_steps
    assert metrics.latest("AverageReturn") == [sum(episode) for episode in episodes]
    assert metrics.latest("AverageEpisodeLength") == [len(episode) for episode in episodes]
    assert metrics.latest("AverageEnvInfo/best@max") == [max(episode) for episode in episodes]
