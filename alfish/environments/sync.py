"""Environments in this process, one after the other: the fastest way for cheap ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from alfish.environments.adapted import AdaptedEnvironment
from alfish.environments.checks import NUM_FULL_CHECKS, FiniteCheck, ObservationCheck, RewardCheck, observation_names
from alfish.environments.episodes import SeededEpisodes
from alfish.environments.faults import Restarts, raised, returned
from alfish.environments.spaces import Array
from alfish.errors import EnvironmentFault
from alfish.types import Nest, StepType, TimeStep


class SyncEnvironment(AdaptedEnvironment):
    """A loop over single environments that writes into one array per leaf."""

    exact_resume = True

    def __init__(
        self,
        envs: Sequence[SeededEpisodes],
        clip_actions: bool = True,
        rebuild: Callable[[int], SeededEpisodes] | None = None,
        max_restarts: int = 0,
    ) -> None:
        """
        Args:
            envs: one per row, with the indices 0, 1, ...; all with the same spaces.
            clip_actions: clip continuous actions to their bounds before the environment gets them.
            rebuild: makes the environment of a row anew; needed for restarts.
            max_restarts: how many faults are mended by a restart, over all environments; 0: a fault ends the run.
        """
        one = envs[0]
        super().__init__(
            name=one.name,
            batch_size=len(envs),
            observation_space=one.observation_space,
            action_space=one.action_space,
            reward_shape=one.reward_shape,
            info_keys=one.info_keys,
            clip_actions=clip_actions,
        )
        self._envs = list(envs)
        self._restarts = Restarts(max_restarts if rebuild is not None else 0)
        self._rebuild = rebuild
        self._check = ObservationCheck(one.observation_space)
        self._reward_check = RewardCheck(one.reward_shape)
        self._row_finite = FiniteCheck(observation_names(one.observation_space), self._observations.fields, 1)
        self._full_checks_left = NUM_FULL_CHECKS
        # Straight to the wrapped environments: the outermost wrapper is about resets only.
        self._steps = [env.env.step for env in envs]
        self._is_over = [True] * self.batch_size
        self._num_steps = 0  # of the batch
        self._began = [0] * self.batch_size  # when that many steps were made
        self._last_good: Sequence[Array] = []

    @property
    def num_restarts(self) -> int:
        return self._restarts.count

    def reset(self, seed: int | None = None) -> TimeStep:
        seed = self._root_seed(seed)
        memory = self._memory.take()
        for index in range(self.batch_size):
            self._begin_episode(index, seed, memory.observation, memory.infos)
        self._last_good = memory.observation
        self._log.begin(slice(None))
        return self._first(memory)

    def step(self, action: Nest) -> TimeStep:
        memory = self._memory.take()
        arrays, reward, infos = memory.observation, memory.reward, memory.infos
        self._actions.store(action, memory.prev_action)
        actions = self._actions.each(memory.prev_action)
        first = []
        faults: dict[int, EnvironmentFault] = {}
        write, is_over = self._observations.write, self._is_over
        misfit, reward_misfit = self._observation_misfit(), self._reward_check.misfit
        self._num_steps += 1
        for index, (step, one_action) in enumerate(zip(self._steps, actions, strict=True)):
            if is_over[index]:
                self._begin_episode(index, None, arrays, infos)
                first.append(index)
                continue
            try:
                observation, one_reward, terminated, truncated, info = step(one_action)
            except Exception as error:
                faults[index] = raised(self.name, index, self._when(index, one_action), error)
                continue
            problem = misfit(observation) or reward_misfit(one_reward)
            if problem:
                faults[index] = returned(self.name, index, self._when(index, one_action), problem)
                continue
            reward[index] = one_reward
            write(arrays, index, observation)
            if infos:
                self._info.write(infos, index, info)
            if terminated or truncated:
                is_over[index] = True
                memory.step_type[index] = StepType.LAST
                if terminated:
                    memory.discount[index] = 0.0
        for index, problem in self._not_finite(memory).items():
            faults.setdefault(index, returned(self.name, index, self._when(index, actions[index]), problem))
        if faults:
            self._restart(faults)
            self._cut_off(list(faults), memory, self._last_good)
        self._last_good = arrays
        self._log.add(memory.prev_action, first)
        if first:
            self._begin_rows(first, memory)
        return memory.time_step

    def state_dict(self) -> dict[str, Any]:
        return {
            "root": self._envs[0].root,
            "episodes": [env.episode for env in self._envs],
            "is_over": list(self._is_over),
            "log": self._log.state_dict(),
        }

    def restore(self, state: dict[str, Any], time_step: TimeStep) -> list[int]:
        self._log.load_state_dict(state["log"])
        self._is_seeded = True
        arrays = self._observations.arrays()
        replayed = []
        for index, (episode, is_over) in enumerate(zip(state["episodes"], state["is_over"], strict=True)):
            env = self._envs[index]
            # At its end, or when it cannot be played again, the next step starts the episode after it.
            env.seek(state["root"], index, episode + 1)
            self._is_over[index] = True
            if not is_over and self._log.lengths()[index] >= 0:
                env.seek(state["root"], index, episode)
                if self._replay(index, arrays):
                    replayed.append(index)
        differing = set(self._differing(arrays, time_step, replayed))
        for index in replayed:
            self._is_over[index] = index in differing
        self._last_good = arrays
        return [index for index, was_over in enumerate(state["is_over"]) if self._is_over[index] and not was_over]

    def _replay(self, index: int, arrays: Sequence[Array]) -> bool:
        """Plays the episode of a row again; whether it has not ended by then."""
        self._begin_episode(index, None, arrays, self._info.empty())
        actions = self._log.of(index)
        self._began[index] = self._num_steps - len(actions)
        for stored in actions:
            observation, _, terminated, truncated, _ = self._steps[index](self._actions.one(stored))
            if terminated or truncated:
                return False
            self._observations.write(arrays, index, observation)
        return True

    def render(self) -> Array | None:
        frame = None if self._envs[0].render_mode is None else self._envs[0].render()
        return frame if isinstance(frame, np.ndarray) else None

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _begin_episode(self, index: int, seed: int | None, arrays: Sequence[Array], infos: dict[str, Array]) -> None:
        """Resets until that succeeds, or there were too many restarts."""
        if seed is not None:
            self._envs[index].seek(seed, index, 0)
        self._began[index] = self._num_steps
        while True:
            try:
                observation, info = self._envs[index].reset()
                problem = self._check.full(observation)
                if not problem:
                    self._observations.write(arrays, index, observation)
                    problem = self._row_finite.offenders([array[index : index + 1] for array in arrays]).get(0, "")
                if problem:
                    raise returned(self.name, index, self._when(index, None), problem)
            except EnvironmentFault as fault:
                self._restart({index: fault})
            else:
                self._info.write(infos, index, info)
                self._is_over[index] = False
                return

    def _restart(self, faults: Mapping[int, EnvironmentFault]) -> None:
        """Rebuilds environments, which go on with their next episode; raises when that is not permitted."""
        for index, fault in sorted(faults.items()):
            self._restarts.permit(fault)
            assert self._rebuild is not None  # else nothing is permitted
            broken = self._envs[index]
            with contextlib.suppress(Exception):  # it is broken, and shall go
                broken.close()
            try:
                env = self._envs[index] = self._rebuild(index)
            except Exception as error:
                raise raised(self.name, index, "while it was built anew", error) from error
            env.seek(broken.root, index, broken.episode + 1)
            self._steps[index] = env.env.step
            self._is_over[index] = True  # until the next episode begins
        self._full_checks_left = NUM_FULL_CHECKS

    def _observation_misfit(self) -> Callable[[Any], str]:
        self._full_checks_left -= 1
        return self._check.full if self._full_checks_left >= 0 else self._check.quick

    def _when(self, index: int, action: Any) -> str:
        return self._envs[index].when(self._num_steps - self._began[index], action)
