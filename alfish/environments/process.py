"""Environments in processes of their own: for slow ones, and for those that may crash."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import gymnasium as gym
from gin.config import current_scope

from alfish.config import carry
from alfish.config.gin_state import current
from alfish.environments.conversion import Array
from alfish.environments.worker import Recipe, WorkerRecipe
from alfish.errors import EnvironmentFault

# Building and resetting a heavy simulator takes longer than stepping it.
_RESET_PATIENCE = 5.0


class ProcessVector:
    """Gymnasium's `AsyncVectorEnv`, spawned, with shared memory, deadlines, and faults that name the environment."""

    def __init__(self, recipe: Recipe, num_envs: int, step_timeout: float) -> None:
        """
        Args:
            recipe: how each environment is built, in its process.
            num_envs: number of processes.
            step_timeout: seconds that a step may take; a reset may take five times as long.
        """
        self._name = recipe.env_name
        self._timeout = step_timeout
        self.num_envs = num_envs
        config = current()
        carried = None if config is None else config.carried()
        scope = tuple(current_scope())
        recipes = [WorkerRecipe(recipe, index, carried, scope) for index in range(num_envs)]
        self._vector = _start(recipes)
        self.render_mode = self._vector.render_mode
        self.single_observation_space = self._vector.single_observation_space
        self.single_action_space = self._vector.single_action_space
        self.reward_shape: tuple[int, ...] = self._vector.get_attr("reward_shape")[0]
        if carried is not None:
            self._merge_operative()

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        try:
            # Every environment derives its seeds from the same root and its own index.
            self._vector.reset_async(seed=[seed] * self.num_envs)
            return self._vector.reset_wait(timeout=_RESET_PATIENCE * self._timeout)
        except Exception as error:
            self._fail("reset", error)

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        try:
            self._vector.step_async(actions)
            return self._vector.step_wait(timeout=self._timeout)
        except Exception as error:
            self._fail("step", error)

    def render(self) -> Any:
        return self._vector.render()

    def close(self) -> None:
        if not self._vector.closed:
            self._vector.close(timeout=self._timeout)

    def _merge_operative(self) -> None:
        for keys in self._vector.call("operative_keys"):
            carry.merge_operative(keys)

    def _fail(self, doing: str, error: Exception) -> NoReturn:
        message = self._diagnose(doing, error)
        self._kill()
        raise EnvironmentFault(message) from error

    def _kill(self) -> None:
        """Gymnasium's `close` would first wait for the answers that are never to come."""
        self._vector.closed = True
        for process in self._vector.processes:
            process.kill()
        for process, pipe in zip(self._vector.processes, self._vector.parent_pipes, strict=True):
            process.join()
            pipe.close()

    def _diagnose(self, doing: str, error: Exception) -> str:
        if isinstance(error, EnvironmentFault):
            return str(error)
        if isinstance(error, multiprocessing.TimeoutError):
            slow = [index for index, pipe in enumerate(self._vector.parent_pipes) if not pipe.poll()]
            return (
                f"{self._name}: environment {_listed(slow)} did not answer a {doing} within its time limit. "
                f"Raise create_environment.env_step_timeout (now {self._timeout:g} s) if it is only slow."
            )
        if isinstance(error, (EOFError, ConnectionError)):
            dead = _dead(self._vector.processes)
            return f"{self._name}: the process of environment {_listed(list(dead))} died in a {doing}: " + "; ".join(
                dead.values()
            )
        return f"{self._name}: {type(error).__name__} in a {doing}: {error}"


class _Workers(gym.vector.AsyncVectorEnv[Any, Any]):
    def _raise_if_errors(self, successes: Iterable[bool]) -> None:
        """Gymnasium's own prints a traceback per worker and raises the error of any."""
        failures = [self.error_queue.get() for success in successes if not success]
        if failures:
            _, _, error, _ = min(failures, key=lambda failure: failure[0])
            raise error


def _start(recipes: Sequence[WorkerRecipe]) -> _Workers:
    try:
        # Observations are copied where they become tensors.
        return _Workers(recipes, shared_memory=True, copy=False, context="spawn")
    except (EOFError, ConnectionError) as error:
        raise EnvironmentFault(
            f"{recipes[0].recipe.env_name}: a worker process died while building its environment; its error is above. "
            "Run with create_environment.backend='sync' to see it alone."
        ) from error


def _dead(processes: Sequence[Any]) -> dict[int, str]:
    """What ended the processes that are gone, by index of the environment."""
    reasons: dict[int, str] = {}
    for index, process in enumerate(processes):
        process.join(timeout=0.5 if not reasons else 0.0)
        code = process.exitcode
        if code is not None:
            reasons[index] = f"killed by signal {-code}" if code < 0 else f"left with exit code {code}"
    return reasons


def _listed(indices: Sequence[int]) -> str:
    return ", ".join(str(index) for index in indices)
