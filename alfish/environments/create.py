"""`create_environment`: from gin's bindings to a batch of environments, whatever runs them."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal

import gymnasium as gym
from gin.config import current_scope

from alfish.config.ranges import Range
from alfish.config.registry import configurable
from alfish.environments import pool
from alfish.environments.backend_choice import Choice, Form, choose, usable_cores
from alfish.environments.environment import Environment
from alfish.environments.loading import find_spec, load_gymnasium
from alfish.environments.process import ProcessEnvironment
from alfish.environments.recipe import Recipe, ScopedRecipe
from alfish.environments.sync import SyncEnvironment
from alfish.environments.vector import VectorEnvironment, make_native
from alfish.errors import ConfigError

_log = logging.getLogger(__name__)

Backend = Literal["auto", "sync", "process", "vector", "envpool", "fastest"]


@configurable
def create_environment(
    env_name: str = "CartPole-v1",
    env_load_fn: Callable[..., gym.Env[Any, Any]] = load_gymnasium,
    num_parallel_environments: Annotated[int, Range(min=-1)] = 1,
    backend: Literal["auto", "sync", "process", "vector", "envpool", "fastest"] = "auto",
    wrappers: Sequence[Callable[..., gym.Env[Any, Any]]] = (),
    env_kwargs: dict[str, Any] | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    info_keys: Sequence[str] = (),
    clip_actions: bool = True,
    env_step_timeout: Annotated[float, Range(above=0)] = 60.0,
    on_env_error: Literal["stop", "restart"] = "stop",
    max_env_restarts: Annotated[int, Range(min=0)] = 3,
    spare_environments: Annotated[int, Range(min=0)] = 0,
) -> Environment:
    """A batch of environments that yields time steps.

    Args:
        env_name: a Gymnasium id; `"my_package:MyEnv-v0"` imports `my_package`, which registers it.
        env_load_fn: makes one environment from `env_name`, e.g. `@load_atari`; called with those of `env_kwargs`,
            `max_episode_steps` and `render_mode` that are set.
        num_parallel_environments: size of the batch; -1: the number of CPUs.
        backend: 'sync' runs the environments one after the other in this process, best for cheap ones; 'process'
            gives each its own, best for slow ones; 'vector' is the environment's native vector form, 'envpool'
            envpool's; 'auto' is the faster of 'sync' and 'process', which resume to the bit; 'fastest' is the
            fastest of all that have the same observations and actions, and gives up exact resume. Both measure for
            a fraction of a second, and say what.
        wrappers: callables from environment to environment, the last one outermost.
        env_kwargs: arguments of the environment's constructor.
        max_episode_steps: time limit in steps; None: the environment's own.
        render_mode: as in Gymnasium; 'rgb_array' lets `render` return pictures.
        info_keys: numeric fields of Gymnasium's `info` to keep as `TimeStep.env_info`; nan in steps without them.
        clip_actions: clip continuous actions to the action space on their way to the environment. What the
            algorithm sees and stores stays unclipped.
        env_step_timeout: seconds that a step may take with backend 'process'; a reset may take five times as long.
        on_env_error: when an environment raises, dies, hangs, or returns nan or what its spaces do not allow: 'stop'
            ends the run with exit code 3; 'restart' ends the episode as a time limit does and builds that
            environment anew. Backends 'sync' and 'process'; only with 'process' can dying and hanging be survived.
        max_env_restarts: how many restarts there may be in all, before a fault ends the run nevertheless.
        spare_environments: additional processes that start the next episodes ahead of time, for environments with a
            slow reset; with backend 'process'. As many as num_parallel_environments hide every reset that is
            shorter than an episode. Episodes stay the same.
    """
    batch_size = _batch_size(num_parallel_environments)
    given = {"env_kwargs": env_kwargs or None, "max_episode_steps": max_episode_steps, "render_mode": render_mode}
    options = {key: value for key, value in given.items() if value is not None}
    _check_loader(env_load_fn, options)
    recipe = Recipe(env_name, env_load_fn, options, tuple(wrappers), tuple(info_keys))
    vector_options = cache(partial(_vector_options, recipe))

    def make_vector(form: Form) -> Environment:
        make = make_native if form == "vector" else pool.EnvpoolVector
        return VectorEnvironment(
            make(env_name, batch_size, vector_options(form) or {}), env_name, info_keys, clip_actions
        )

    remark = ""
    if backend == "auto" or backend == "fastest":
        chosen = Choice("sync")
        if not spare_environments and render_mode != "human":
            forms: tuple[Form, ...] = ("vector", "envpool") if backend == "fastest" and on_env_error == "stop" else ()
            vectors = {
                form: partial(make_vector, form)
                for form in forms
                if vector_options(form) is not None and _has_form(env_name, form)
            }
            chosen = choose(recipe, batch_size, usable_cores(), vectors)
        backend, remark = chosen.backend, chosen.words
    _check_options(backend, on_env_error, spare_environments)
    if backend != "process":
        _warn_if_set("env_step_timeout", env_step_timeout, f"backend is {backend!r}, not 'process'")
    if on_env_error == "stop":
        _warn_if_set("max_env_restarts", max_env_restarts, "on_env_error is 'stop'")
    max_restarts = max_env_restarts if on_env_error == "restart" else 0

    def make_single(form: Form) -> Environment:
        if form == "process":
            return ProcessEnvironment(
                recipe, batch_size, env_step_timeout, clip_actions, max_restarts, spare_environments
            )
        envs = [recipe.build(index) for index in range(batch_size)]
        return SyncEnvironment(envs, clip_actions, ScopedRecipe(recipe, tuple(current_scope())).build, max_restarts)

    if backend == "vector" or backend == "envpool":
        _check_batched(backend, env_name, vector_options(backend))
        env = make_vector(backend)
    elif remark:
        env = _chosen_or_sync(make_single, backend)
    else:
        env = make_single(backend)
    env.remark = remark
    return env


def _chosen_or_sync(make: Callable[[Form], Environment], form: Form) -> Environment:
    """Nobody asked for processes, so environments that cannot be in them are none the worse."""
    try:
        return make(form)
    except Exception as error:
        if form == "sync":
            raise
        _log.warning("%s\n  Environments run in this process instead, one after the other: backend 'sync'", error)
        return make("sync")


def _batch_size(number: int) -> int:
    if number == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if number < 1:
        raise ConfigError(
            f"create_environment.num_parallel_environments={number}: must be at least 1, or -1 for the number of CPUs"
        )
    return number


def _check_options(backend: Backend, on_env_error: str, spare_environments: int) -> None:
    if on_env_error == "restart" and backend not in ("sync", "process"):
        raise ConfigError(
            f"create_environment.on_env_error='restart' needs backend 'sync' or 'process': a single environment of "
            f"{backend!r} cannot be built anew."
        )
    if spare_environments and backend != "process":
        raise ConfigError(
            f"create_environment.spare_environments={spare_environments} needs backend 'process', not {backend!r}: "
            "spare environments are processes."
        )


def _warn_if_set(name: str, value: object, reason: str) -> None:
    if value != inspect.signature(create_environment).parameters[name].default:
        _log.warning("create_environment.%s: no effect, since %s", name, reason)


def _vector_options(recipe: Recipe, backend: Backend) -> dict[str, Any] | None:
    """Arguments of a vector form that is what the recipe builds; None where there is none."""
    if recipe.wrappers:
        return None
    if recipe.env_load_fn is load_gymnasium:
        options = dict(recipe.load_options)
        return {**options.pop("env_kwargs", {}), **options}
    if backend == "envpool":  # it has arguments of its own for what a loader does
        return None
    with recipe.build(0) as env:
        found: dict[str, Any] | None = getattr(env.env, "vector_options", None)
    return found


def _has_form(env_name: str, backend: Backend) -> bool:
    if backend == "vector":
        return find_spec(env_name).vector_entry_point is not None
    return pool.has_environment(env_name) if backend == "envpool" else True


def _check_batched(backend: Backend, env_name: str, vector_options: dict[str, Any] | None) -> None:
    if vector_options is None:
        raise ConfigError(
            f"create_environment.backend={backend!r} takes the environments as they are, without env_load_fn and "
            "wrappers (but @load_atari, without max_episode_steps and render_mode, has the form 'vector'). Use 'sync' "
            "or 'process' with these."
        )
    if backend == "envpool":
        pool.check_installed()
    if _has_form(env_name, backend):
        return
    others: tuple[Backend, ...] = ("sync", "process", "vector", "envpool")
    forms = [repr(each) for each in others if _has_form(env_name, each)]
    raise ConfigError(
        f"create_environment.backend={backend!r}: {env_name} has no such form. It can run with {', '.join(forms)}."
    )


def _check_loader(env_load_fn: Callable[..., Any], options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(env_load_fn).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = [name for name in options if name not in parameters]
    if unknown:
        loader = getattr(env_load_fn, "__name__", str(env_load_fn))
        raise ConfigError(
            f"create_environment.{unknown[0]} is set, but env_load_fn {loader} has no argument {unknown[0]}; it takes "
            f"{', '.join(parameters)}."
        )
