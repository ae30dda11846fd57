from __future__ import annotations

import pickle
from typing import Any

from gin.config import bind_parameter, get_configurable

from alfish import config
from alfish.environments.loading import load_gymnasium
from alfish.environments.recipe import Recipe, ScopedRecipe
from alfish.environments.wrappers import MaskVelocity, TimeLimit
from tests.environments import scripted  # noqa: F401 (registers load_scripted)


def test_wrappers_are_applied_in_order() -> None:
    recipe = Recipe("CartPole-v1", load_gymnasium, {"max_episode_steps": 9}, (MaskVelocity, TimeLimit), ("score",))
    env = recipe.build(4)
    assert str(env) == "<SeededEpisodes<TimeLimit<MaskVelocity<TimeLimit<CartPoleEnv<CartPole-v1>>>>>>"
    assert (env.name, env.index, env.info_keys) == ("CartPole-v1", 4, ("score",))


def test_a_recipe_can_be_pickled() -> None:
    recipe = Recipe("CartPole-v1", load_gymnasium, {}, (MaskVelocity,))
    assert pickle.loads(pickle.dumps(recipe)) == recipe  # noqa: S301


class Installed:
    def __init__(self) -> None:
        self.count = 0

    def install(self) -> None:
        self.count += 1


def test_the_config_is_installed_before_the_environment_is_built() -> None:
    carried: Any = Installed()
    recipe = ScopedRecipe(Recipe("CartPole-v1", load_gymnasium), (), carried)
    assert carried.count == 0
    assert recipe.build(2).index == 2
    assert carried.count == 1


def test_a_scope_of_gin_holds_whenever_the_environment_is_built() -> None:
    with config.isolated():
        bind_parameter("load_scripted.bonus", 1.0)
        bind_parameter("eval/load_scripted.bonus", 5.0)
        recipe = Recipe("any", get_configurable("load_scripted"))
        for scope, reward in (((), 2.0), (("eval",), 6.0)):
            env = ScopedRecipe(recipe, scope).build(0)
            env.reset(seed=0)
            assert env.step(0)[1] == reward
