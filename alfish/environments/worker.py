"""How one environment is built, here or in a worker process. Imports no torch, so that workers start quickly."""

from __future__ import annotations

import os
import signal
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
class WorkerRecipe:
    """A recipe for one process: gin's configuration of the parent is installed before the environment is built."""

    recipe: Recipe
    index: int
    carried: Carried | None  # None when no config is loaded
    scope: tuple[str, ...]  # of gin, where create_environment was called
    parent: int = field(default_factory=os.getpid)

    def __call__(self) -> SeededEpisodes:
        # Gymnasium also builds one environment in the parent, to see the spaces.
        if os.getpid() != self.parent:
            # Ctrl-C reaches every process of the terminal; the parent decides when workers stop.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if self.carried is not None:
                self.carried.install()
        with config_scope(list(self.scope)):
            return self.recipe.build(self.index)
