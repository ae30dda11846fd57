"""How one environment is built, here or in a worker process. Imports no torch, so that workers start quickly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from gin.config import config_scope

from alfish.config.carry import Carried
from alfish.environments.episodes import SeededEpisodes
from alfish.errors import ConfigError


@dataclass(frozen=True)
class Recipe:
    """Everything needed to build environment `index`, in a form that can be sent to a process."""

    env_name: str
    env_load_fn: Callable[..., gym.Env[Any, Any]]
    load_options: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[Callable[..., gym.Env[Any, Any]], ...] = ()
    info_keys: tuple[str, ...] = ()

    def build(self, index: int) -> SeededEpisodes:
        env = self.env_load_fn(self.env_name, **self.load_options)
        if not isinstance(env, gym.Env):
            raise ConfigError(f"create_environment.env_load_fn returned a {type(env).__name__}, not a gymnasium.Env")
        for wrapper in self.wrappers:
            env = wrapper(env)
            if not isinstance(env, gym.Env):
                name = getattr(wrapper, "__name__", wrapper)
                raise ConfigError(
                    f"create_environment.wrappers: {name} returned a {type(env).__name__}, not a gymnasium.Env"
                )
        return SeededEpisodes(env, self.env_name, index, self.info_keys)


@dataclass(frozen=True)
class ScopedRecipe:
    """A recipe for later or elsewhere: the environment is built with the gin configuration of now and here.

    It is pickled by cloudpickle, which takes lambdas and configurables of gin as well.
    """

    recipe: Recipe
    scope: tuple[str, ...]  # of gin, where create_environment was called
    carried: Carried | None = None  # installed before the environment is built; None: nothing to install

    def build(self, index: int) -> SeededEpisodes:
        if self.carried is not None:
            self.carried.install()
        with config_scope(list(self.scope)):
            return self.recipe.build(index)
