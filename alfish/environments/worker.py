"""What the process of one environment does. Imports no torch, so that it starts quickly."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np

from alfish.config import carry
from alfish.environments import faults, spaces
from alfish.environments.checks import NUM_FULL_CHECKS, FiniteCheck, ObservationCheck, RewardCheck, observation_names
from alfish.environments.episodes import SeededEpisodes
from alfish.environments.recipe import ScopedRecipe
from alfish.environments.shared_rows import End, SharedRows
from alfish.errors import EnvironmentFault


def serve(pipe: Connection, pickled_recipe: bytes, rows: SharedRows, row: int) -> None:
    """Builds an environment, sends what it used of gin's configuration, and obeys until the pipe is closed.

    Commands are `step`, with the action in shared memory, `reset <root seed> <index> <episode>` and `render`. The
    answer is empty, and the numbers are in shared memory, or it says what went wrong. A picture is pickled.
    """
    # Here, so that what cannot be imported comes home as a message.
    recipe: ScopedRecipe = cloudpickle.loads(pickled_recipe)
    env = recipe.build(row)
    worker = EnvironmentWorker(env, rows, row)
    pipe.send(carry.operative_keys() if recipe.carried is not None else {})
    try:
        while True:
            command, *numbers = pipe.recv_bytes().split()
            if command == b"step":
                pipe.send_bytes(_text_of_fault(worker.step))
            elif command == b"reset":
                pipe.send_bytes(_text_of_fault(worker.reset, *map(int, numbers)))
            else:
                pipe.send(worker.render())
    finally:
        env.close()


def _text_of_fault(act: Callable[..., None], *arguments: int) -> bytes:
    try:
        act(*arguments)
    except EnvironmentFault as fault:
        return str(fault).encode()
    except Exception as error:  # such as an info that is no number: said with its traceback
        return "".join(traceback.format_exception(error)).encode()
    return b""


class EnvironmentWorker:
    """Steps one environment; takes actions from its row of shared memory and leaves there what comes of them.

    Args:
        env: the environment.
        rows: the shared memory.
        row: which one is ours.
    """

    def __init__(self, env: SeededEpisodes, rows: SharedRows, row: int) -> None:
        self._env = env
        self._rows = rows
        self._row = row
        self._steps = 0
        self._steps_ever = 0
        self._observation_structure = spaces.structure(env.observation_space)
        self._action_structure = spaces.structure(env.action_space)
        self._check = ObservationCheck(env.observation_space)
        self._reward_check = RewardCheck(env.reward_shape)
        names = [*observation_names(env.observation_space), "a reward"]
        layout = rows.layout
        self._finite = FiniteCheck(names, [*layout.observation, (layout.reward_shape, np.dtype(np.float32))], 1)
        self._numbers = [array[row : row + 1] for array in (*rows.observations, rows.rewards)]

    def reset(self, root: int, index: int, episode: int) -> None:
        self._steps = 0
        self._env.seek(root, index, episode)
        observation, info = self._env.reset()
        self._write(observation, 0.0, End.NONE, info, None)

    def step(self) -> None:
        self._steps += 1
        self._steps_ever += 1
        action = self._action()
        try:
            observation, reward, terminated, truncated, info = self._env.env.step(action)
        except Exception as error:
            raise faults.raised(self._env.name, self._env.index, self._env.when(self._steps, action), error) from error
        problem = self._reward_check.misfit(reward)
        if problem:
            raise self._returned(problem, action)
        end = End.TERMINATED if terminated else End.TRUNCATED if truncated else End.NONE
        self._write(observation, reward, end, info, action)

    def render(self) -> Any:
        try:
            return self._env.render()
        except Exception as error:
            raise faults.raised(self._env.name, self._env.index, "while rendering", error) from error

    def _action(self) -> Any:
        # Copies, since an environment may keep or change what it is given.
        return spaces.assemble(self._action_structure, [array[self._row].copy() for array in self._rows.actions])

    def _write(self, observation: Any, reward: Any, end: int, info: Mapping[str, Any], action: Any) -> None:
        rows, row = self._rows, self._row
        is_new = self._steps_ever <= NUM_FULL_CHECKS or not self._steps
        problem = self._check.full(observation) if is_new else self._check.quick(observation)
        if problem:
            raise self._returned(problem, action)
        leaves = spaces.leaf_values(self._observation_structure, observation)
        for array, leaf in zip(rows.observations, leaves, strict=True):
            array[row] = leaf
        rows.rewards[row] = reward
        rows.ends[row] = end
        for position, key in enumerate(self._env.info_keys):
            rows.infos[row, position] = info.get(key, np.nan)
        offenders = self._finite.offenders(self._numbers)
        if offenders:
            raise self._returned(offenders[0], action)

    def _returned(self, what: str, action: Any) -> EnvironmentFault:
        env = self._env
        return faults.returned(env.name, env.index, env.when(self._steps, action), what)
