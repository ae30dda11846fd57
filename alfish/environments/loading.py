"""From an environment's id to a Gymnasium environment, with errors that say what to do. Imports no torch."""

from __future__ import annotations

import copy
import difflib
import importlib
import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym

from alfish.config.registry import configurable
from alfish.environments.quick_spaces import quick
from alfish.errors import ConfigError

# The extra of alfish that brings an environment family, by a part of its entry point or id.
_EXTRAS = {
    "mujoco": "mujoco",
    "box2d": "box2d",
    "ale_py": "atari",
    "ALE/": "atari",
    "NoFrameskip": "atari",
}


@configurable
def load_gymnasium(
    env_name: str,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
) -> gym.Env[Any, Any]:
    """One environment from Gymnasium's registry.

    Args:
        env_name: a Gymnasium id; `"my_package:MyEnv-v0"` imports `my_package` first.
        max_episode_steps: time limit in steps; None: the registered one; -1: none.
        render_mode: as in `gymnasium.make`, e.g. 'rgb_array' or 'human'.
        env_kwargs: arguments of the environment's constructor.
    """
    spec = copy.deepcopy(find_spec(env_name))
    # alfish always resets first; a wrapper fewer in every step.
    spec.order_enforce = False
    options = dict(env_kwargs or {})
    if render_mode is not None:
        options["render_mode"] = render_mode
    try:
        with _without_model_warnings(spec):
            env = gym.make(spec, max_episode_steps=max_episode_steps, disable_env_checker=True, **options)
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        raise ConfigError(f"{env_name} cannot be loaded: {error}{_advice(spec)}") from error
    except (gym.error.Error, TypeError, ValueError) as error:
        raise ConfigError(
            f"{env_name} cannot be made with max_episode_steps={max_episode_steps}, {options}: {error}"
        ) from error
    env.unwrapped.action_space = quick(env.unwrapped.action_space)
    return env


def find_spec(env_name: str) -> gym.envs.registration.EnvSpec:
    """Gymnasium's registration of an id; what is wrong with the id is a `ConfigError`."""
    _register_known_packages(env_name)
    try:
        # The public gym.spec neither imports "module:" nor resolves an id without version.
        return gym.envs.registration._find_spec(env_name)
    except ModuleNotFoundError as error:
        module = env_name.partition(":")[0]
        raise ConfigError(
            f"create_environment.env_name={env_name!r}: cannot import {module!r} ({error}). "
            "It must be installed, or lie in the working folder or on PYTHONPATH."
        ) from error
    except gym.error.Error as error:
        extra = _extra_of(env_name)
        if extra is not None and _is_missing(extra):
            advice = f" Install it with: pip install 'alfish[{extra}]'"
        else:
            advice = _nearest(env_name)
        raise ConfigError(f"create_environment.env_name={env_name!r}: no such environment.{advice}") from error


@contextmanager
def _without_model_warnings(spec: gym.envs.registration.EnvSpec) -> Iterator[None]:
    """Gymnasium's own MuJoCo models use attributes that newer MuJoCo wants gone; nothing a user could mend."""
    if "mujoco" not in str(spec.entry_point) or _is_missing("mujoco"):
        yield
        return
    mujoco = importlib.import_module("mujoco")
    previous = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: None if "deprecated" in text else warnings.warn(text, stacklevel=2))
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(previous)


def _register_known_packages(env_name: str) -> None:
    importlib.import_module("alfish.environments.registration")
    if _extra_of(env_name) == "atari" and not _is_missing("atari"):
        importlib.import_module("ale_py")


def _extra_of(text: str) -> str | None:
    return next((extra for part, extra in _EXTRAS.items() if part in text), None)


def _is_missing(extra: str) -> bool:
    module = {"atari": "ale_py", "box2d": "Box2D"}.get(extra, extra)
    return importlib.util.find_spec(module) is None


def _advice(spec: gym.envs.registration.EnvSpec) -> str:
    extra = _extra_of(f"{spec.entry_point} {spec.id}")
    return "" if extra is None else f"\nInstall it with: pip install 'alfish[{extra}]'"


def _nearest(env_name: str) -> str:
    name = env_name.rpartition(":")[2]
    by_lower = {env_id.lower(): env_id for env_id in gym.registry}
    close = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    if not close:
        return (
            " `python -c 'import gymnasium; gymnasium.pprint_registry()'` lists what is registered; "
            'an environment of your own is named "my_package:MyEnv-v0", which imports my_package.'
        )
    return f" Did you mean {' or '.join(by_lower[match] for match in close)}?"
