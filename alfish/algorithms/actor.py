"""Acting with an algorithm: from where the environments are to where they are next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from alfish import nest, specs
from alfish.algorithms.precision import Precision
from alfish.algorithms.random_actions import RandomActions
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.environments.environment import Environment
from alfish.replay.structure import describe, load_nest, save_nest
from alfish.summary.timers import Timers
from alfish.types import AlgStep, Nest, StepType, TimeStep, replace

if TYPE_CHECKING:
    from alfish.algorithms.rl_algorithm import RLAlgorithm

RolloutStep = Callable[[TimeStep, Nest], AlgStep]


class Acted(NamedTuple):
    """What an algorithm did in one step of every environment, `[B, ...]`."""

    seen: TimeStep  # as the networks saw it
    state: Nest  # the recurrent state before the step; () without memory
    action: Nest
    info: Nest


class Actor:
    """Explores with `rollout_step`, one step after the other, and remembers where the environments are.

    Args:
        algorithm: decides; its data transformer and its random stream are used.
        env: the environments that are acted in; only their specs and number are read here.
        config: the options of the run.
        timers: take the time of acting and of the environments.
        rollout_step: what to call for the algorithm's own, e.g. the same compiled; None: that itself.
    """

    time_step: TimeStep  # where the environments are

    def __init__(
        self,
        algorithm: RLAlgorithm,
        env: Environment,
        config: TrainerConfig,
        timers: Timers,
        rollout_step: RolloutStep | None = None,
    ) -> None:
        self._algorithm = algorithm
        self._rollout_step = rollout_step
        self._config = config
        self._acting, self._moving = timers("act"), timers("env")
        self._precision = Precision.of(config)
        transformer, device = algorithm.data_transformer, config.device
        self._transformer_state = specs.zeros(transformer.state_spec, env.batch_size, device=device)
        self.state = specs.zeros(algorithm.rollout_state_spec, env.batch_size, device=device)
        self._seen: TimeStep | None = None  # the time step as the networks see it; None: not transformed yet
        self._random_actions = None
        if config.random_initial_collect:
            self._random_actions = RandomActions(env.observation_spec, env.action_spec)

    def move_to(self, time_step: TimeStep) -> None:
        """The environments are here now."""
        self.time_step = time_step if self._config.device == "cpu" else nest.to_device(time_step, self._config.device)
        self._seen = None

    def step(self, move: Callable[[Nest], TimeStep]) -> Acted:
        """One step in every environment; `move` gives the action to the environments."""
        algorithm, state = self._algorithm, self.state
        with self._acting:
            time_step = self.see()
            if state != ():
                state = nest.zero_where(time_step.is_first(), state)
            with self._precision.autocast():
                step = (self._rollout_step or algorithm.rollout_step)(time_step, state)
            step = self._precision.kept(step)
            action = step.output
            if self._random_actions and algorithm.progress.env_steps < self._config.initial_collect_steps:
                action = self._random_actions(self.time_step.observation, algorithm.generator)
        with self._moving:
            self.move_to(move(nest.detach(action) if torch.is_grad_enabled() else action))
        self.state = step.state
        return Acted(time_step, state, action, step.info)

    def see(self) -> TimeStep:
        """The current time step as the networks see it. Transformed once: statistics count every time step once."""
        if self._seen is None:
            transform = self._algorithm.data_transformer.transform_timestep
            self._seen, self._transformer_state = transform(self.time_step, self._transformer_state)
        return self._seen

    def break_off(self, step_type: int) -> None:
        """Every environment counts as being at such a step."""
        self._seen = _with_step_type(self.see(), step_type)
        self.time_step = _with_step_type(self.time_step, step_type)

    def end_episodes(self, rows: list[int]) -> None:
        """The episodes of these environments are over, as at a time limit."""
        self.time_step = _cut_off(self.time_step, rows)
        self._seen = None if self._seen is None else _cut_off(self._seen, rows)

    def state_dict(self) -> dict[str, Any]:
        return {
            "time_step": save_nest(self.time_step),
            "seen": None if self._seen is None else save_nest(self._seen),
            "is_transformed": self._seen is not self.time_step,
            "state": save_nest(self.state),
            "transformer_state": save_nest(self._transformer_state),
        }

    def fits(self, state: dict[str, Any]) -> bool:
        """Whether observations, memory and data transformers are as they were then, so that it can be loaded."""
        now = {"state": self.state, "transformer_state": self._transformer_state}
        observation = load_nest(state["time_step"]).observation
        return _look(observation) == _look(self.time_step.observation) and all(
            _look(load_nest(state[name])) == _look(value) for name, value in now.items()
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.time_step = load_nest(state["time_step"])
        self._seen = self.time_step
        if state["is_transformed"]:
            self._seen = None if state["seen"] is None else load_nest(state["seen"])
        self.state = load_nest(state["state"])
        self._transformer_state = load_nest(state["transformer_state"])

    def forget_graph(self) -> None:
        """Gradients of what comes reach back to here, and no further."""
        if self.state != ():
            self.state = nest.detach(self.state)


def _look(value: Nest) -> tuple[Any, list[torch.Size]]:
    return describe(value), [leaf.shape for leaf in nest.leaves(value)]


def _cut_off(time_step: TimeStep, rows: list[int]) -> TimeStep:
    step_type, discount = time_step.step_type.clone(), time_step.discount.clone()
    step_type[rows] = StepType.LAST
    discount[rows] = 1.0
    return replace(time_step, step_type=step_type, discount=discount)


def _with_step_type(time_step: TimeStep, step_type: int) -> TimeStep:
    return replace(time_step, step_type=torch.full_like(time_step.step_type, step_type))
