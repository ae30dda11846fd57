"""Environments in processes of their own: for slow ones, and for those that may crash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gin.config import current_scope

from alfish.config.gin_state import current
from alfish.environments.adapted import AdaptedEnvironment
from alfish.environments.faults import Restarts
from alfish.environments.recipe import Recipe, ScopedRecipe
from alfish.environments.shared_rows import End, Layout, SharedRows
from alfish.environments.spaces import Array
from alfish.environments.step_memory import StepArrays
from alfish.environments.worker_handle import WorkerHandle, stop_all, wait_for
from alfish.errors import EnvironmentFault
from alfish.types import Nest, StepType, TimeStep


class ProcessEnvironment(AdaptedEnvironment):
    """One spawned process per environment; numbers travel through shared memory, one round trip per step.

    A *slot* is a row of the batch. Usually the same process serves it all the time. With spares, a slot at the end of
    an episode goes on with a process that was reset for it while the episode ran. Which process that is makes no
    difference, since an episode follows from the root seed, the slot and the number of the episode.

    A spare is prepared for one slot, the one whose episode has been running for longest. So with fewer spares than
    slots, those that end together with it, or before it, wait for their own reset; and an episode that is shorter
    than a reset hides only a part of it.

    Args:
        recipe: how each environment is built, in its process.
        batch_size: number of slots.
        step_timeout: seconds that a step may take; a reset may take five times as long.
        clip_actions: clip continuous actions to their bounds before the environment gets them.
        max_restarts: how many faults are mended by a restart, over all environments; 0: a fault ends the run.
        num_spares: number of additional processes.
    """

    exact_resume = True

    def __init__(
        self,
        recipe: Recipe,
        batch_size: int,
        step_timeout: float,
        clip_actions: bool = True,
        max_restarts: int = 0,
        num_spares: int = 0,
    ) -> None:
        one = recipe.build(0)  # to see the spaces
        try:
            super().__init__(
                recipe.env_name,
                batch_size,
                one.observation_space,
                one.action_space,
                one.reward_shape,
                recipe.info_keys,
                clip_actions,
            )
            self._can_render = one.render_mode is not None
        finally:
            one.close()
        self._restarts = Restarts(max_restarts)
        num_rows = batch_size + num_spares
        layout = Layout(
            num_rows, self._observations.fields, self._actions.fields, self.reward_spec.shape, len(recipe.info_keys)
        )
        self._shared = SharedRows(layout)
        self._root = 0
        self._episode = np.full(batch_size, -1)
        self._elapsed = np.zeros(batch_size, np.int64)
        self._is_over = np.ones(batch_size, np.bool_)
        self._last_good: Sequence[Array] = []
        self._workers: list[WorkerHandle] = []  # by slot
        self._idle: list[WorkerHandle] = []  # spares that nothing was asked of
        self._prepared: dict[int, WorkerHandle] = {}  # spares that start, or have started, the next episode of a slot
        self._start(recipe, num_rows, step_timeout)

    @property
    def num_restarts(self) -> int:
        return self._restarts.count

    def reset(self, seed: int | None = None) -> TimeStep:
        wait_for(self._workers)  # for what an interrupt kept from being heard
        seed = self._root_seed(seed)
        if seed is not None:
            self._root = seed
            self._episode[:] = -1
            self._recall_spares()
        self._begin_episodes(range(self.batch_size))
        self._is_over[:] = False
        self._prepare_spares()
        self._log.begin(slice(None))
        memory = self._memory.take()
        self._read(memory)
        return self._first(memory)

    def step(self, action: Nest) -> TimeStep:
        memory = self._memory.take()
        self._actions.store(action, memory.prev_action)
        for shared, given in zip(self._shared.actions, self._actions.leaves(memory.prev_action), strict=True):
            shared[self._rows] = given
        first = self._is_over.nonzero()[0].tolist()
        running = [worker for worker, is_over in zip(self._workers, self._is_over, strict=True) if not is_over]
        self._elapsed += 1
        for worker in running:
            worker.step()
        for slot in first:
            self._begin_episode(slot)
        self._wait_for(self._workers)
        broken = self._replace_broken(running)
        if first:
            self._begin_episodes(self._replace_broken([self._workers[slot] for slot in first]))
        if first or broken:
            self._prepare_spares()
        self._log.add(memory.prev_action, first)
        return self._time_step_after(memory, first, broken)

    def state_dict(self) -> dict[str, Any]:
        return {
            "root": self._root,
            "episodes": self._episode.tolist(),
            "is_over": self._is_over.tolist(),
            "log": self._log.state_dict(),
        }

    def restore(self, state: dict[str, Any], time_step: TimeStep) -> list[int]:
        self._log.load_state_dict(state["log"])
        self._is_seeded, self._root = True, state["root"]
        self._recall_spares()
        was_over = np.array(state["is_over"])
        lengths = np.array(self._log.lengths())
        playable = np.flatnonzero(~was_over & (lengths >= 0)).tolist()
        self._episode[:] = state["episodes"]
        self._episode[playable] -= 1  # which beginning them adds again
        self._begin_episodes(playable)
        is_same = self._replay(playable)
        self._read(self._memory.take())
        is_same[self._differing(self._last_good, time_step, playable)] = False
        self._is_over = ~is_same
        self._prepare_spares()
        return np.flatnonzero(self._is_over & ~was_over).tolist()

    def _replay(self, slots: list[int]) -> Array:
        """Plays the episodes of these slots again, side by side; which of them have not ended by then, `[B]`."""
        goes_on = np.zeros(self.batch_size, np.bool_)
        goes_on[slots] = True
        actions = {slot: self._log.of(slot) for slot in slots}
        for number in range(max(map(len, actions.values()), default=0)):
            slots = [slot for slot in slots if goes_on[slot] and number < len(actions[slot])]
            for slot in slots:
                given = self._actions.leaves([leaf[None] for leaf in actions[slot][number]])
                for shared, leaf in zip(self._shared.actions, given, strict=True):
                    shared[self._rows[slot]] = leaf[0]
                self._workers[slot].step()
                self._elapsed[slot] += 1
            stepped = [self._workers[slot] for slot in slots]
            self._wait_for(stepped)
            self._begin_episodes(self._replace_broken(stepped))
            goes_on[slots] = self._shared.ends[self._rows[slots]] == End.NONE
        return goes_on

    def render(self) -> Array | None:
        frame = self._workers[0].render() if self._can_render else None
        return frame if isinstance(frame, np.ndarray) else None

    def close(self) -> None:
        stop_all(self._processes())

    def _start(self, recipe: Recipe, num_rows: int, step_timeout: float) -> None:
        config = current()
        carried = None if config is None else config.carried()
        scoped = ScopedRecipe(recipe, tuple(current_scope()), carried)
        workers: list[WorkerHandle] = []
        try:
            for row in range(num_rows):
                workers.append(WorkerHandle(scoped, self._shared, row, step_timeout))
            for worker in workers:
                worker.wait_until_ready()
        except BaseException:
            for worker in workers:
                worker.kill()
            raise
        self._workers, self._idle = workers[: self.batch_size], workers[self.batch_size :]
        self._rows = np.arange(self.batch_size)

    def _processes(self) -> list[WorkerHandle]:
        return [*self._workers, *self._idle, *self._prepared.values()]

    # Episodes

    def _begin_episodes(self, slots: Sequence[int]) -> None:
        """Starts the next episode in these slots; an environment that fails to is restarted and goes on to one more."""
        while slots:
            for slot in slots:
                self._begin_episode(slot)
            begun = [self._workers[slot] for slot in slots]
            self._wait_for(begun)
            slots = self._replace_broken(begun)

    def _begin_episode(self, slot: int) -> None:
        self._episode[slot] += 1
        self._elapsed[slot] = 0
        spare = self._prepared.pop(slot, None)
        if spare is None:
            self._workers[slot].reset(self._root, slot, int(self._episode[slot]))
        else:
            self._idle.append(self._workers[slot])
            self._workers[slot] = spare
            self._rows[slot] = spare.row

    def _prepare_spares(self) -> None:
        """Has idle processes start the next episodes of the slots that will need them first."""
        while self._idle:
            uncovered = [slot for slot in range(self.batch_size) if slot not in self._prepared]
            slot = max(uncovered, key=lambda slot: self._elapsed[slot], default=None)
            if slot is None:
                return
            spare = self._prepared[slot] = self._idle.pop()
            spare.reset(self._root, slot, int(self._episode[slot]) + 1)

    def _recall_spares(self) -> None:
        """What the spares have prepared is not wanted any more."""
        recalled = list(self._prepared.values())
        self._prepared.clear()
        self._wait_for(recalled)
        self._idle += [self._replacement(worker) if worker.fault else worker for worker in recalled]

    # Faults

    def _wait_for(self, workers: Iterable[WorkerHandle]) -> None:
        wait_for(workers, until_fault=self._restarts.are_used_up)

    def _replace_broken(self, workers: list[WorkerHandle]) -> list[int]:
        """Restarts processes that are dead, hang, or whose environment failed; returns their slots."""
        broken = [worker for worker in workers if worker.fault]
        slots = [self._workers.index(worker) for worker in broken]
        for slot, worker in zip(slots, broken, strict=True):
            self._workers[slot] = self._replacement(worker)
        return slots

    def _replacement(self, worker: WorkerHandle) -> WorkerHandle:
        try:
            self._restarts.permit(EnvironmentFault(worker.fault))
        except EnvironmentFault:
            for each in self._processes():
                each.kill()
            raise
        return worker.restarted()

    # Time steps

    def _read(self, memory: StepArrays) -> None:
        """Copies observations and infos, in the order of the slots."""
        for shared, array in zip(self._shared.observations, memory.observation, strict=True):
            np.take(shared, self._rows, 0, array, "clip")  # rows are never beyond; "raise" would copy twice
        for position, info in enumerate(memory.infos.values()):
            info[...] = self._shared.infos[self._rows, position]
        self._last_good = memory.observation

    def _time_step_after(self, memory: StepArrays, first: list[int], broken: list[int]) -> TimeStep:
        last_good = self._last_good
        self._read(memory)
        memory.reward[...] = self._shared.rewards[self._rows]
        ends = self._shared.ends[self._rows]
        memory.discount[ends == End.TERMINATED] = 0.0
        if broken:
            ends[broken] = End.TRUNCATED
            self._cut_off(broken, memory, last_good)
        self._is_over = ends != End.NONE
        memory.step_type[self._is_over] = StepType.LAST
        if first:
            self._begin_rows(first, memory)
        return memory.time_step
