from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from alfish import nest
from alfish.environments.episodes import SeededEpisodes, episode_seed
from alfish.environments.sync import SyncEnvironment
from alfish.errors import EnvironmentFault
from alfish.types import TimeStep
from tests.environments.scripted import BOTH, MID, TERMINATED, TRUNCATED, BrokenEnv, NoisyEnv, ScriptedEnv


def sync(*envs: gym.Env[Any, Any], info_keys: tuple[str, ...] = (), clip_actions: bool = True) -> SyncEnvironment:
    return SyncEnvironment([SeededEpisodes(env, "test", i, info_keys) for i, env in enumerate(envs)], clip_actions)


def test_stream_of_a_terminated_and_a_truncated_environment() -> None:
    env = sync(ScriptedEnv([MID, TERMINATED]), ScriptedEnv([MID, MID, TRUNCATED]), ScriptedEnv([BOTH]))
    steps = [env.reset(seed=0), *(env.step(torch.tensor([k, k, k]) % 5) for k in range(1, 6))]
    first, mid, last = 0, 1, 2
    columns = {
        "step_type": [
            [first, first, first],
            [mid, mid, last],
            [last, mid, first],
            [first, last, last],
            [mid, first, first],
            [last, mid, last],
        ],
        # 10 * episode + step; 0 at FIRST
        "reward": [[0, 0, 0], [1, 1, 1], [2, 2, 0], [0, 3, 11], [11, 0, 0], [12, 11, 21]],
        "discount": [[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1], [0, 1, 0]],
        "prev_action": [[0, 0, 0], [1, 1, 1], [2, 2, 0], [0, 3, 3], [4, 0, 0], [0, 0, 0]],
        "env_id": [[0, 1, 2]] * 6,
    }
    for name, expected in columns.items():
        assert [getattr(step, name).tolist() for step in steps] == expected, name
    # The final observation of an episode is there, and the next row starts the next episode.
    assert [step.observation[1].tolist() for step in steps] == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]]
    assert steps[1].step_type.dtype == torch.int32
    assert steps[1].reward.dtype == steps[1].discount.dtype == torch.float32
    assert steps[1].observation.dtype == torch.float32
    assert steps[1].prev_action.dtype == torch.int64
    assert steps[1].env_info == ()


def test_the_action_after_last_is_not_given_to_the_environment() -> None:
    inner = ScriptedEnv([MID, TERMINATED])
    env = sync(inner)
    env.reset(seed=0)
    for action in (1, 2, 3, 4):
        env.step(torch.tensor([action]))
    assert inner.actions == [1, 2, 4]


def test_tensors_are_never_overwritten_later() -> None:
    env = sync(NoisyEnv())
    action = env.action_spec
    action = nest.map(lambda spec: spec.zeros(1), action)
    seen = [env.reset(seed=0)]
    for _ in range(30):
        seen.append(env.step(action))
    copies = nest.map(lambda leaf: leaf.clone(), seen)
    for _ in range(30):
        nest.map(lambda leaf: leaf.add_(1), action)
        nest.map(lambda leaf: leaf.sub_(1), action)
        env.step(action)
    nest.map(lambda leaf: leaf.add_(1), action)
    assert all(torch.equal(a, b) for a, b in zip(nest.leaves(seen), nest.leaves(copies), strict=True))


def episodes(env: SyncEnvironment, index: int, length: int, seed: int) -> list[list[float]]:
    """The observations of environment `index`."""
    zeros = nest.map(lambda spec: spec.zeros(env.batch_size), env.action_spec)
    steps = [env.reset(seed=seed), *(env.step(zeros) for _ in range(length))]
    return [step.observation["place"][index].tolist() for step in steps]


def test_episodes_follow_from_seed_and_index_alone() -> None:
    one = episodes(sync(NoisyEnv()), 0, 60, seed=3)
    assert episodes(sync(NoisyEnv()), 0, 60, seed=3) == one
    assert episodes(sync(NoisyEnv()), 0, 60, seed=4) != one
    # Neither the other environments nor what ran before make a difference.
    wide = sync(NoisyEnv(), NoisyEnv(), NoisyEnv())
    assert episodes(wide, 0, 60, seed=3) == one
    assert episodes(wide, 0, 60, seed=3) == one
    assert episodes(wide, 1, 60, seed=3) != one


def test_reset_without_seed_goes_on_with_the_next_episode() -> None:
    env = sync(ScriptedEnv([MID] * 9))
    inner: Any = env._envs[0].unwrapped
    env.reset(seed=1)
    env.reset()
    env.reset(seed=1)
    assert inner.seeds[0] == inner.seeds[2] != inner.seeds[1]


def test_unseeded_environments_differ() -> None:
    first = [sync(NoisyEnv()).reset().observation["place"] for _ in range(2)]
    assert not torch.equal(*first)


def test_continuous_actions_are_clipped_on_their_way_only() -> None:
    space = gym.spaces.Box(np.array([-1.0, -np.inf, 0.0]), np.array([1.0, np.inf, np.inf]), dtype=np.float64)
    action = torch.tensor([[2.0, -9.0, -3.0]])
    for clip, received in ((True, [1.0, -9.0, 0.0]), (False, [2.0, -9.0, -3.0])):
        inner = ScriptedEnv([MID] * 5, space)
        env = sync(inner, clip_actions=clip)
        env.reset(seed=0)
        step = env.step(action)
        assert inner.actions[0].tolist() == received
        assert inner.actions[0].dtype == np.float64
        assert step.prev_action.tolist() == [[2.0, -9.0, -3.0]]


def test_an_action_with_gradient_is_taken_as_it_is() -> None:
    env = sync(ScriptedEnv([MID] * 5, gym.spaces.Box(-1.0, 1.0, (1,))))
    env.reset(seed=0)
    step = env.step(torch.tensor([[0.5]], requires_grad=True))
    assert step.prev_action.tolist() == [[0.5]]
    assert not step.prev_action.requires_grad


def test_info_keys() -> None:
    env = sync(ScriptedEnv([MID, TERMINATED]), info_keys=("steps",))
    steps = [env.reset(seed=0), *(env.step(torch.zeros(1, dtype=torch.int64)) for _ in range(3))]
    found = torch.cat([step.env_info["steps"] for step in steps])
    assert torch.equal(found.nan_to_num(-1), torch.tensor([-1.0, 1, 2, -1]))
    assert nest.same_structure(env.env_info_spec, steps[0].env_info)


def test_vector_reward() -> None:
    env = sync(NoisyEnv(vector_reward=True), NoisyEnv(vector_reward=True))
    assert env.reward_spec.shape == (2,)
    action = nest.map(lambda spec: spec.zeros(2), env.action_spec)
    action["push"] += 0.25
    assert env.reset(seed=0).reward.tolist() == [[0, 0], [0, 0]]
    assert env.step(action).reward.tolist() == [[0.5, -0.5], [0.5, -0.5]]


def third_step(how: str) -> TimeStep:
    env = sync(ScriptedEnv([MID] * 5), BrokenEnv(how))
    env.reset(seed=0)
    return [env.step(torch.tensor([0, 2])) for _ in range(3)][-1]


def test_faults_name_environment_step_and_action() -> None:
    with pytest.raises(EnvironmentFault) as caught:
        third_step("raise")
    assert "test: environment 1 raised LocalTrouble: ('the wheel', 'came off')" in str(caught.value)
    assert "in step 3 of episode 0, action 2" in str(caught.value)
    assert type(caught.value.__cause__).__name__ == "LocalTrouble"


def test_values_that_do_not_fit_the_spaces() -> None:
    with pytest.raises(
        EnvironmentFault, match=r"environment 1 .* observation .* shape is \(3,\), its space has \(2,\)"
    ):
        third_step("shape")
    with pytest.raises(EnvironmentFault, match=r"environment 1 .* reward of shape \(2,\), expected \(\).*reward_space"):
        third_step("reward")

    class Shy(ScriptedEnv):
        def _observe(self) -> Any:
            return np.zeros(1)

    with pytest.raises(EnvironmentFault, match=r"shape is \(1,\), its space has \(2,\)"):
        sync(Shy()).reset(seed=0)


@pytest.mark.parametrize(
    ("how", "what"),
    [("nan", r"an observation that is not finite: \[nan, nan\]"), ("infinite reward", "a reward .* inf")],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in dot")  # as alfish does, but for pytest
def test_what_is_not_finite_is_never_passed_on(how: str, what: str) -> None:
    with pytest.raises(EnvironmentFault, match=rf"environment 1 returned {what}\n  in step 3 of episode 0, action 2"):
        third_step(how)


def test_a_single_number_is_not_spread_over_an_observation() -> None:
    class Shrinking(ScriptedEnv):
        def _observe(self) -> Any:
            return super()._observe() if self.steps < 15 else np.zeros(1)

    env = sync(Shrinking([MID] * 20))
    env.reset(seed=0)
    for _ in range(14):
        env.step(torch.tensor([0]))
    with pytest.raises(EnvironmentFault, match=r"(?s)shape is \(1,\), its space has \(2,\).*in step 15"):
        env.step(torch.tensor([0]))


def test_restarts_are_of_the_broken_environment_only() -> None:
    broken, sound = BrokenEnv("raise"), ScriptedEnv([MID] * 9)
    envs = [SeededEpisodes(env, "test", index) for index, env in enumerate((broken, sound))]
    rebuilt = ScriptedEnv([MID] * 9)
    env = SyncEnvironment(envs, rebuild=lambda index: SeededEpisodes(rebuilt, "test", index), max_restarts=1)
    env.reset(seed=4)
    steps = [env.step(torch.tensor([2, 2])) for _ in range(5)]
    assert [step.step_type.tolist() for step in steps] == [[1, 1], [1, 1], [2, 1], [0, 1], [1, 1]]
    assert [step.discount.tolist() for step in steps] == [[1, 1]] * 5
    assert steps[2].observation.tolist() == [[0, 2], [0, 3]]  # the last good one of the broken
    assert rebuilt.seeds == [episode_seed(4, 0, 1)]
    assert env.num_restarts == 1


def test_a_wrong_action_shape_is_refused() -> None:
    env = sync(ScriptedEnv(), ScriptedEnv())
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"shape \(2, 1\); the environment takes \(2,\)"):
        env.step(torch.zeros(2, 1, dtype=torch.int64))


def test_render_shows_environment_0() -> None:
    env = sync(gym.make("CartPole-v1", render_mode="rgb_array"), gym.make("CartPole-v1", render_mode="rgb_array"))
    env.reset(seed=0)
    frame = env.render()
    assert frame is not None
    assert frame.shape == (400, 600, 3)
    assert sync(ScriptedEnv()).render() is None
    env.close()
    env.close()
