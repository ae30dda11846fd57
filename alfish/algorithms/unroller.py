"""Where experience comes from: this process, or others that act while this one learns."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch

from alfish import nest
from alfish.algorithms.actor import Acted, Actor, RolloutStep
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.environment import Environment
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.summary.metrics import EpisodeMetrics
from alfish.summary.timers import Timers
from alfish.types import Experience, Nest, StepType, TimeStep, replace

if TYPE_CHECKING:
    from alfish.algorithms.rl_algorithm import RLAlgorithm

_log = logging.getLogger(__name__)


class Unrolled:
    """What was unrolled, for those who want to know.

    Args:
        experience: to learn from.
        time_steps: `[T + 1, B]`, to count; the first row was counted with the unroll before.
    """

    def __init__(self, experience: Experience, time_steps: TimeStep) -> None:
        self._experience = experience
        self._time_steps = time_steps

    @property
    def experience(self) -> Experience:
        """To learn from."""
        return self._experience

    @property
    def time_steps(self) -> TimeStep:
        """To count."""
        return self._time_steps

    def store(self, replay: ReplayBuffer) -> None:
        """Adds it."""
        replay.add(self.experience)

    def count(self, metrics: EpisodeMetrics) -> None:
        """Has its steps and episodes counted."""
        metrics.observe(self.time_steps, start=1)


class Unroller(Protocol):
    """Acts in all environments of a run with the parameters of its algorithm, newer or older ones.

    Whoever collects is given every step once and in order.
    """

    @property
    def time_step(self) -> TimeStep:
        """Where the next unroll begins, `[B, ...]`."""

    def start(self) -> None:
        """Begins the first episodes; from now on `time_step` is known."""

    def collect(self, least: int, most: int) -> Unrolled | None:
        """Between `least` and `most` steps of every environment; None when there are none."""

    def collect_episodes(self, number: int) -> Unrolled:
        """`number` whole new episodes: equally many of each environment, the rest of the first ones."""

    def rest(self) -> None:
        """Nothing more will be collected. Calling it twice is fine."""

    def state_dict(self) -> dict[str, Any]:
        """Where the episodes are, for `resume`; empty when nobody can go on with them."""

    def resume(self, state: dict[str, Any]) -> bool:
        """After `start`: goes on with the episodes of then. False when that cannot be, and they begin anew."""


class LocalUnroller:
    """Acts when it is asked to, in this process: as many steps as can be, always with the newest parameters."""

    def __init__(
        self,
        algorithm: RLAlgorithm,
        env: Environment,
        config: TrainerConfig,
        timers: Timers,
        seed: int,
        rollout_step: RolloutStep | None = None,
    ) -> None:
        """
        Args:
            algorithm: decides.
            env: the environments.
            config: the options of the run.
            timers: take the time of acting and of the environments.
            seed: of the environments.
            rollout_step: see `Actor`.
        """
        self._env = env
        self._on_policy = algorithm.on_policy
        self._with_grad = config.unroll_with_grad
        self._device = config.device
        self._actor = Actor(algorithm, env, config, timers, rollout_step)
        self._seed = seed

    def start(self) -> None:
        self._actor.move_to(self._env.reset(seed=self._seed))

    @property
    def time_step(self) -> TimeStep:
        return self._actor.time_step

    def collect(self, least: int, most: int) -> Unrolled | None:
        if most == 0:
            return None
        rows = _Rows(self._actor)
        with torch.set_grad_enabled(self._with_grad):
            for _ in range(most):
                rows.append(self._actor.step(self._env.step))
            if most == 1 and not self._on_policy:
                return _UnrolledStep(rows)
            experience = rows.experience()
            return Unrolled(self._to_train_on(experience, rows), experience.time_step)

    def collect_episodes(self, number: int) -> Unrolled:
        """What an environment does after its last episode is neither counted nor trained on.

        To the metrics it is FIRST, to the loss LAST, whose actions have no weight.
        """
        actor, batch = self._actor, self._env.batch_size
        left = torch.tensor([number // batch + (index < number % batch) for index in range(batch)])
        rows = _Rows(actor)
        idle = [left == 0]
        with torch.set_grad_enabled(self._with_grad):
            if not actor.time_step.is_first().all():
                idle.append(left == 0)
                rows.append(actor.step(lambda _: self._env.reset()))
            while (left > 0).any():
                idle.append(left == 0)
                rows.append(actor.step(self._env.step))
                left -= (actor.time_step.is_last().cpu() & (left > 0)).long()
            raw = rows.experience()
            experience = self._to_train_on(raw, rows)
        actor.break_off(StepType.LAST)  # also where an episode under way is given up
        is_idle = torch.stack(idle).to(self._device)
        time_step = _marked(experience.time_step, is_idle, StepType.LAST)
        return Unrolled(replace(experience, time_step=time_step), _marked(raw.time_step, is_idle, StepType.FIRST))

    def rest(self) -> None:
        return

    def state_dict(self) -> dict[str, Any]:
        if not self._env.exact_resume:
            return {}
        return {"env": self._env.state_dict(), "actor": self._actor.state_dict()}

    def resume(self, state: dict[str, Any]) -> bool:
        if not state or not self._env.exact_resume or len(state["env"]["episodes"]) != self._env.batch_size:
            return False
        if not self._actor.fits(state["actor"]):
            return False
        self._actor.load_state_dict(state["actor"])
        broken = self._env.restore(state["env"], self._actor.time_step)
        if broken:
            _log.warning(
                "%s: the episodes of the environments %s could not be played again, because they came out otherwise "
                "(the environment is not deterministic) or are too long. They count as cut off, and new ones begin",
                self._env.name,
                ", ".join(map(str, broken)),
            )
            self._actor.end_episodes(broken)
        return True

    def _to_train_on(self, experience: Experience, rows: _Rows) -> Experience:
        """Raw data for replay, which transforms what is drawn; on-policy, what the networks saw."""
        if not self._on_policy or rows.seen[0] is rows.time_steps[0]:
            return experience
        return replace(experience, time_step=nest.stack([*rows.seen, self._actor.see()]))


class _Rows:
    """The steps of an unroll, stacked at its end: cheaper than writing every step into place."""

    def __init__(self, actor: Actor) -> None:
        actor.forget_graph()
        self._actor = actor
        self.time_steps = [actor.time_step]
        self.seen: list[TimeStep] = []  # the same, transformed, but the last
        self.actions: list[Nest] = []
        self.infos: list[Nest] = []
        self.states: list[Nest] = []

    def append(self, acted: Acted) -> None:
        self.time_steps.append(self._actor.time_step)
        self.seen.append(acted.seen)
        self.actions.append(acted.action)
        self.infos.append(acted.info)
        self.states.append(acted.state)
        self._final_state = self._actor.state

    def experience(self) -> Experience:
        return Experience(
            time_step=nest.stack(self.time_steps),
            action=nest.stack(self.actions),
            rollout_info=nest.stack(self.infos),
            state=nest.stack(self.states),
            final_state=self._final_state,
        )


class _UnrolledStep(Unrolled):
    """A single step for replay. It is stacked when somebody looks at it: to store it takes half of that time."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows

    @cached_property
    def experience(self) -> Experience:
        return self._rows.experience()

    @property
    def time_steps(self) -> TimeStep:
        return self.experience.time_step

    def store(self, replay: ReplayBuffer) -> None:
        rows = self._rows
        before, after = rows.time_steps
        replay.add_step(before, rows.actions[0], rows.infos[0], rows.states[0], after)

    def count(self, metrics: EpisodeMetrics) -> None:
        metrics.observe(self._rows.time_steps[1])


def _marked(time_step: TimeStep, where: torch.Tensor, step_type: int) -> TimeStep:
    return replace(time_step, step_type=time_step.step_type.masked_fill(where, step_type))
