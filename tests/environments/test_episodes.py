from __future__ import annotations

import gymnasium as gym
import pytest

from alfish.environments.episodes import SeededEpisodes, episode_seed
from alfish.errors import EnvironmentFault
from alfish.seeding import Seeds
from tests.environments.scripted import BrokenEnv, ScriptedEnv


@pytest.mark.parametrize(("root", "index", "number"), [(0, 0, 0), (7, 3, 11), (2**31 - 1, 100, 4000), (2**40, 1, 2)])
def test_worker_side_seeds_are_those_of_the_run(root: int, index: int, number: int) -> None:
    assert episode_seed(root, index, number) == Seeds(root).integer("episode", index, number)


def test_every_episode_of_every_environment_has_its_own_seed() -> None:
    scripts = [ScriptedEnv(), ScriptedEnv()]
    envs = [SeededEpisodes(env, "scripted", index) for index, env in enumerate(scripts)]
    for env in envs:
        env.reset(seed=5)
        env.reset()
        env.reset(seed=6)
    seen = [seed for env in scripts for seed in env.seeds]
    assert seen == [episode_seed(root, index, n) for index in (0, 1) for root, n in ((5, 0), (5, 1), (6, 0))]
    assert len(set(seen)) == 6


def test_a_fault_is_text_that_names_environment_step_action_and_place() -> None:
    env = SeededEpisodes(BrokenEnv("raise"), "my/Env-v0", 3)
    env.reset(seed=0)
    env.step(0)
    env.step(1)
    with pytest.raises(EnvironmentFault) as caught:
        env.step(2)
    text = str(caught.value)
    assert caught.value.args == (text,)
    assert "my/Env-v0: environment 3 raised LocalTrouble: ('the wheel', 'came off')" in text
    assert "in step 3 of episode 0, action 2, at " in text
    assert "scripted.py:" in text


def test_only_the_chosen_info_crosses_the_boundary() -> None:
    env = SeededEpisodes(ScriptedEnv(), "scripted", 0, info_keys=("steps", "absent"))
    assert env.reset(seed=0)[1] == {}
    assert env.step(0)[4] == {"steps": 1}
    assert SeededEpisodes(gym.make("CartPole-v1"), "CartPole-v1", 0).reward_shape == ()
