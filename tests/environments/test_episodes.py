from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from alfish.environments.episodes import SeededEpisodes, episode_seed
from alfish.errors import EnvironmentFault
from alfish.seeding import Seeds
from tests.environments.scripted import NoisyEnv, ScriptedEnv


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


def test_a_reset_that_raises_names_environment_and_episode() -> None:
    class NeverStarts(ScriptedEnv):
        def reset(self, **options: Any) -> Any:
            raise RuntimeError("no fuel")

    env = SeededEpisodes(NeverStarts(), "my/Env-v0", 3)
    env.seek(5, 3, 7)
    with pytest.raises(EnvironmentFault) as caught:
        env.reset()
    assert "my/Env-v0: environment 3 raised RuntimeError: no fuel\n  in the reset of episode 7\n" in str(caught.value)
    assert env.when(3, 2) == "in step 3 of episode 7, action 2"


def test_an_episode_can_be_played_by_any_instance() -> None:
    script = ScriptedEnv()
    env = SeededEpisodes(script, "scripted", 0)
    env.seek(5, 2, 4)
    env.reset()
    env.reset()
    assert script.seeds == [episode_seed(5, 2, 4), episode_seed(5, 2, 5)]


def test_a_reward_is_a_scalar_unless_declared_otherwise() -> None:
    assert SeededEpisodes(gym.make("CartPole-v1"), "CartPole-v1", 0).reward_shape == ()
    assert SeededEpisodes(NoisyEnv(vector_reward=True), "noisy", 0).reward_shape == (2,)
