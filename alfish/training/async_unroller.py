"""Experience from worker processes that act while this one learns."""

from __future__ import annotations

import logging
from multiprocessing.connection import wait
from typing import Any

import torch

from alfish import nest, specs
from alfish.algorithms.rl_algorithm import RLAlgorithm
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.unroller import Unrolled
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.seeding import Seeds
from alfish.summary.timers import Timers
from alfish.training.experience_ring import Row
from alfish.training.snapshot import SharedParameters
from alfish.training.unroll_supervisor import UnrollSupervisor
from alfish.training.unroll_worker import example_row
from alfish.training.worker_config import WorkerConfig
from alfish.types import Experience, TimeStep

_LOOK_AGAIN = 1.0  # seconds

_log = logging.getLogger(__name__)


class AsyncUnroller:
    """Takes what `num_unroll_workers` processes write, equally many steps of each, and sends them parameters.

    Workers hold on to their parameters for `unroll_parameter_update_period` iterations, and may be
    `unroll_queue_size` steps ahead. By how many updates the experience is behind is the summary `Unroll/lag`.

    Args:
        algorithm: the one that learns.
        env: says what the environments are like, and is closed: the workers have their own.
        config: the options of the run.
        setup: the configuration for the workers.
        seeds: of the run.
        timers: take the time of waiting.
    """

    def __init__(
        self,
        algorithm: RLAlgorithm,
        env: Environment,
        config: TrainerConfig,
        setup: WorkerConfig,
        seeds: Seeds,
        timers: Timers,
    ) -> None:
        _check(algorithm, env, config)
        self._algorithm = algorithm
        self._config, self._setup, self._seeds = config, setup, seeds
        self._timers = timers
        self._example = example_row(algorithm, env, env.batch_size // config.num_unroll_workers)
        env.close()
        self._parameters = SharedParameters(algorithm)
        self._updates_of: dict[int, int] = {}  # how many updates had made the parameters of a version
        self._published_at = -1  # iteration
        self._workers: list[UnrollSupervisor] = []
        # Statistics are buffers: without any, there is nothing to keep up.
        self._keeps_statistics = any(True for _ in algorithm.data_transformer.buffers())
        transformer = algorithm.data_transformer
        self._transformer_state = specs.zeros(transformer.state_spec, env.batch_size, device=config.device)
        self._was_late = False

    @property
    def time_step(self) -> TimeStep:
        time_step: TimeStep = nest.concat([worker.time_step for worker in self._workers])
        return self._to_device(time_step)

    def start(self) -> None:
        config, number = self._config, self._config.num_unroll_workers
        for index in range(number):
            worker = UnrollSupervisor(
                index,
                number,
                self._example,
                config.unroll_queue_size,
                self._setup,
                self._seeds,
                self._parameters,
                config.unroll_timeout,
            )
            self._workers.append(worker)
        with self._timers("wait"):
            while any(worker.is_starting for worker in self._workers):
                self._wait()

    def collect(self, least: int, most: int) -> Unrolled | None:
        self._publish()
        if most == 0:
            return None
        with self._timers("wait"):
            self._look()
            while (number := min(most, *(worker.available for worker in self._workers))) < least:
                self._wait()
        if number == 0:
            return None
        begins, parts = zip(*(worker.take(number) for worker in self._workers), strict=True)
        begin, rows = self._to_device((nest.concat(begins), nest.concat(parts, dim=1)))
        time_steps = nest.concat([nest.map(lambda leaf: leaf.unsqueeze(0), begin), rows.time_step])
        self._summarize(rows)
        if self._keeps_statistics:
            self._keep_statistics(time_steps)
        return Unrolled(Experience(time_steps, rows.action, rows.rollout_info, rows.state), time_steps)

    def collect_episodes(self, number: int) -> Unrolled:
        raise NotImplementedError("workers unroll steps, not episodes")  # TrainerConfig refuses it

    def rest(self) -> None:
        for worker in self._workers:
            worker.stop()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def resume(self, state: dict[str, Any]) -> bool:
        return False

    def _publish(self) -> None:
        progress = self._algorithm.progress
        period = self._config.unroll_parameter_update_period
        if self._published_at < 0 or progress.iterations >= self._published_at + period:
            self._published_at = progress.iterations
            self._updates_of[self._parameters.publish(self._algorithm)] = progress.updates

    def _look(self) -> None:
        for worker in self._workers:
            worker.look()

    def _wait(self) -> None:
        """Until one of the workers did something, or something became of it."""
        for worker in self._workers:
            worker.give_back()
        longest = min(_LOOK_AGAIN, self._config.unroll_timeout)
        wait([sign for worker in self._workers for sign in worker.signs], longest)
        self._look()

    def _keep_statistics(self, time_steps: TimeStep) -> None:
        """Every time step that was acted on counts once, as where acting and learning are one process."""
        transform = self._algorithm.data_transformer.transform_timestep
        with torch.no_grad():
            for t in range(len(time_steps.step_type) - 1):
                _, self._transformer_state = transform(nest.index(time_steps, t), self._transformer_state)

    def _summarize(self, rows: Row) -> None:
        summary, updates = self._algorithm.summary, self._algorithm.progress.updates
        versions = [int(version) for version in rows.version.flatten().tolist()]
        behind = [updates - self._updates_of[version] for version in versions]
        oldest = min(versions)
        self._updates_of = {version: count for version, count in self._updates_of.items() if version >= oldest}
        late = sum(worker.late_steps for worker in self._workers)
        with summary.scope("Unroll"):
            summary.scalar("lag", sum(behind) / len(behind))
            summary.scalar("queued", min(worker.available for worker in self._workers))
            summary.scalar("restarts", sum(worker.num_restarts for worker in self._workers))
            summary.scalar("late_steps", late)
        if late and not self._was_late:
            self._was_late = True
            _log.warning(
                "a worker is slower than TrainerConfig.unroll_step_interval = %g s; the summary Unroll/late_steps "
                "counts the steps that come late",
                self._config.unroll_step_interval,
            )

    def _to_device(self, data: nest.Nest) -> nest.Nest:
        return data if self._config.device == "cpu" else nest.to_device(data, self._config.device)


def _check(algorithm: RLAlgorithm, env: Environment, config: TrainerConfig) -> None:
    name, workers = type(algorithm).__name__, config.num_unroll_workers
    if algorithm.on_policy and not algorithm.tolerates_lag:
        raise ConfigError(
            f"TrainerConfig.async_unroll = True: {name} is on-policy, it cannot learn from what older parameters did. "
            "Set async_unroll = False, or use an off-policy algorithm such as SacAlgorithm or DqnAlgorithm."
        )
    if env.batch_size % workers:
        raise ConfigError(
            f"TrainerConfig.num_unroll_workers = {workers} does not divide "
            f"create_environment.num_parallel_environments = {env.batch_size}: every worker gets equally many. "
            f"{_divisors(env.batch_size)} would."
        )


def _divisors(number: int) -> str:
    return ", ".join(str(each) for each in range(1, number + 1) if number % each == 0)
