"""Vector environments alone. Every step of every environment counts, with the one that only begins an episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np

from workloads.atari import make_atari, register_atari
from workloads.measuring import SPEED, Metrics, Request, timed_iterations
from workloads.settings import IMAGE_VECTORS, VECTORS

Step = Callable[[Any], Any]  # of all environments, with a batch of actions in numpy


def single(env_name: str) -> gym.Env[Any, Any]:
    return make_atari(env_name) if env_name.startswith("ALE/") else gym.make(env_name)


def gymnasium_sync(env_name: str, number: int) -> Step:
    envs = gym.vector.SyncVectorEnv([lambda: single(env_name)] * number)
    envs.reset(seed=0)
    return envs.step


def gymnasium_vector(env_name: str, number: int) -> Step:
    if env_name.startswith("ALE/"):
        register_atari()
    envs = gym.make_vec(env_name, num_envs=number, vectorization_mode="vector_entry_point")
    envs.reset(seed=0)
    return envs.step


def gymnasium_vector_in_torch(env_name: str, number: int) -> Step:
    """The least that whoever computes with torch has to pay: no copies, no checks, no time steps."""
    import torch

    raw = gymnasium_vector(env_name, number)
    as_tensors = _AsTensors()

    def step(action: Any) -> object:
        observation, reward, terminated, truncated, _ = raw(as_tensors(action).numpy())
        return [torch.from_numpy(each) for each in (observation, reward, terminated, truncated)]

    return step


def envpool_threads(env_name: str, number: int) -> Step:
    import envpool

    envs = envpool.make(env_name.removeprefix("ALE/"), env_type="gymnasium", num_envs=number)
    envs.reset()
    return envs.step


def stable_baselines3(env_name: str, number: int) -> Step:
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import VecFrameStack

    if env_name.startswith("ALE/"):
        register_atari()
        envs: Any = VecFrameStack(make_atari_env(env_name, number, seed=0), 4)
    else:
        envs = make_vec_env(env_name, number, seed=0)
    envs.reset()
    return envs.step


def tianshou(env_name: str, number: int) -> Step:
    from tianshou.env import DummyVectorEnv

    envs = DummyVectorEnv([lambda: single(env_name)] * number)
    envs.reset()
    over = np.zeros(number, np.bool_)

    def step(action: Any) -> None:
        # Whoever uses it has to reset what ended, as its collector does.
        _, _, terminated, truncated, _ = envs.step(action)
        np.logical_or(terminated, truncated, out=over)
        if over.any():
            envs.reset(np.nonzero(over)[0])

    return step


def alfish(backend: str) -> Callable[[str, int], Step]:
    def make(env_name: str, number: int) -> Step:
        from alfish.environments.atari import load_atari
        from alfish.environments.create import create_environment

        options: dict[str, Any] = {"num_parallel_environments": number, "backend": backend}
        if env_name.startswith("ALE/") and backend == "envpool":
            env_name = env_name.removeprefix("ALE/")
        elif env_name.startswith("ALE/"):
            options["env_load_fn"] = load_atari
        env = create_environment(env_name, **options)
        env.reset(seed=0)
        as_tensors = _AsTensors()
        return lambda action: env.step(as_tensors(action))

    return make


class _AsTensors:
    """Actions come as tensors from whoever acts with torch, so it is no matter of the environments to make them."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def __call__(self, action: Any) -> Any:
        tensor = self._made.get(id(action))
        if tensor is None:
            import torch

            tensor = self._made[id(action)] = torch.from_numpy(action)
        return tensor


MAKERS: dict[str, Callable[[str, int], Step]] = {
    "stable-baselines3": stable_baselines3,
    "tianshou": tianshou,
    "sync": gymnasium_sync,
    "vector": gymnasium_vector,
    "vector-in-torch": gymnasium_vector_in_torch,
    "envpool": envpool_threads,
    **{f"alfish-{backend}": alfish(backend) for backend in ("auto", "vector", "envpool", "fastest")},
}


def missing(variant: str) -> str | None:
    return "envpool is not installed" if "envpool" in variant and find_spec("envpool") is None else None


def stepping(step: Step, env_name: str, number: int) -> Iterator[int]:
    space, generator = single(env_name).action_space, np.random.default_rng(0)
    if isinstance(space, gym.spaces.Discrete):
        actions = list(generator.integers(0, int(space.n), (64, number)))
    else:
        actions = list(generator.uniform(-1, 1, (64, number, *(space.shape or ()))).astype(np.float32))
    count = 0
    while True:
        for action in actions[: max(1, 512 // number)]:
            step(action)
            count += number
        yield count


def measure(request: Request) -> Metrics:
    cases = (*VECTORS, *IMAGE_VECTORS)
    each = replace(request, seconds=request.seconds / len(cases), turns=None)
    metrics: Metrics = {}
    for env_name, number in cases:
        try:
            step = MAKERS[request.variant](env_name, number)
        except Exception as error:  # this environment has no such form
            if not any(word in str(error) for word in ("form", "entry point", "vectorization", "vector_entry_point")):
                raise
            continue
        speed = timed_iterations(stepping(step, env_name, number), each)
        metrics[f"{env_name} x {number}, {SPEED}"] = speed[SPEED]
    return metrics
