"""A process that acts while another one learns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from alfish import nest, specs
from alfish.algorithms.actor import Actor
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.config.carry import Operative, operative_keys
from alfish.environments.create import create_environment
from alfish.environments.environment import Environment
from alfish.progress import Progress
from alfish.seeding import Seeds
from alfish.summary.summary import Summary
from alfish.summary.timers import Timers
from alfish.training.build import build_algorithm
from alfish.training.experience_ring import RingWriter, Row
from alfish.training.snapshot import SharedParameters
from alfish.training.worker_config import WorkerConfig
from alfish.types import Nest, TimeStep, replace

_LOOK_AGAIN = 0.01  # seconds


@dataclass(frozen=True)
class Ready:
    """The environments are reset: the ring is open."""

    used: Operative  # bindings


@dataclass(frozen=True)
class Share:
    """What one worker does of the whole.

    Args:
        index: of the worker, from 0.
        num_workers: that share the environments.
        num_environments: of this one.
        run_seed: the root of the run.
        root_seed: of this worker, and of this start of it.
    """

    index: int
    num_workers: int
    num_environments: int
    run_seed: int
    root_seed: int


def act(pipe: Connection, setup: WorkerConfig, share: Share, parameters: SharedParameters, ring: RingWriter) -> None:
    """Acts with the newest of `parameters`, from the first on, and writes what happens to `ring`, until `pipe` ends."""
    torch.set_num_threads(1)
    config, seeds = setup.install(), Seeds(share.root_seed)
    with create_environment(num_parallel_environments=share.num_environments) as env, torch.no_grad():
        algorithm = build_algorithm(config, env, Seeds(share.run_seed))
        algorithm.attach(Progress(), Summary.disabled(), seeds)
        algorithm.data_transformer.attach(seeds.torch("transform"))
        # Statistics are kept where experience is learned from, and come with the parameters.
        algorithm.data_transformer.eval()
        worker = _Worker(algorithm, env, config, share, parameters)
        ring.open_with(worker.reset(seeds.integer("env")))
        pipe.send(Ready(operative_keys()))
        pace = Pace(config.unroll_step_interval, ring.count_late_step)
        if not worker.wait_for_parameters(pipe):
            return
        while ring.wait_for_space(pipe) and pace.keep(pipe):
            ring.put(worker.step())


def example_row(algorithm: RLAlgorithm, env: Environment, batch_size: int) -> Row:
    """What the rows of a worker with `batch_size` environments look like, by a step on trial that changes nothing."""
    device = next(algorithm.parameters()).device
    transformer = algorithm.data_transformer
    with algorithm.evaluating(torch.Generator(device=device).manual_seed(0)):
        time_step = env.reset(seed=0)
        seen, _ = transformer.transform_timestep(
            nest.to_device(time_step, device), specs.zeros(transformer.state_spec, env.batch_size, device=device)
        )
        state = specs.zeros(algorithm.rollout_state_spec, env.batch_size, device=device)
        step = algorithm.rollout_step(seen, state)
    row = Row(step.output, step.info, state, time_step, torch.zeros(env.batch_size, dtype=torch.int64))
    example: Row = nest.map(lambda leaf: leaf[:batch_size].cpu(), row)
    return example


class _Worker:
    def __init__(
        self,
        algorithm: RLAlgorithm,
        env: Environment,
        config: TrainerConfig,
        share: Share,
        parameters: SharedParameters,
    ) -> None:
        self._algorithm = algorithm
        self._env = env
        self._share = share
        self._parameters = parameters
        self._actor = Actor(algorithm, env, config, Timers())
        self._version = torch.zeros(env.batch_size, dtype=torch.int64)
        self._steps_before: int | None = None  # of the run, when this worker began
        self._steps = 0  # of this worker

    def reset(self, seed: int) -> TimeStep:
        self._actor.move_to(self._placed(self._env.reset(seed=seed)))
        return self._actor.time_step

    def wait_for_parameters(self, pipe: Connection) -> bool:
        """Whether there are any; False: the other process wants nothing more."""
        while self._parameters.version == 0:
            if pipe.poll(_LOOK_AGAIN):
                return False
        return True

    def step(self) -> Row:
        if self._parameters.version != self._version[0]:
            self._version.fill_(self._parameters.load_into(self._algorithm))
        self._count()
        acted = self._actor.step(self._move)
        time_step = self._actor.time_step
        self._steps += int((~time_step.is_first()).sum())
        return Row(acted.action, acted.info, acted.state, time_step, self._version)

    def _count(self) -> None:
        """Exploration follows the steps that are taken, of which the learner knows only the older ones."""
        progress = self._algorithm.progress
        if self._steps_before is None:
            self._steps_before = progress.env_steps
        progress.env_steps = self._steps_before + self._share.num_workers * self._steps

    def _move(self, action: Nest) -> TimeStep:
        return self._placed(self._env.step(action))

    def _placed(self, time_step: TimeStep) -> TimeStep:
        """With the indices that the environments have in the whole run."""
        if self._share.index == 0:
            return time_step
        first = self._share.index * self._share.num_environments
        return replace(time_step, env_id=time_step.env_id + first)


class Pace:
    """Steps at a fixed interval.

    Args:
        interval: seconds; 0: no waiting.
        count_late: called when a step comes after its time.
        clock: a monotonic clock.
    """

    def __init__(
        self, interval: float, count_late: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval
        self._count_late = count_late
        self._clock = clock
        self._due: float | None = None

    def keep(self, pipe: Connection) -> bool:
        """Waits until the next step is due; False: `pipe` was closed at its other end."""
        left = 0.0
        if self._interval:
            now = self._clock()
            due = now if self._due is None else self._due
            left = max(0.0, due - now)
            if now > due:
                self._count_late()
                due = now  # the steps after a late one keep their distance
            self._due = due + self._interval
        return not pipe.poll(left)
