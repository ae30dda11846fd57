"""The on-policy loop: learn from the newest unroll, then forget it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from alfish import nest
from alfish.algorithms.precision import Precision
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.unroller import Unrolled
from alfish.algorithms.update_step import make_update_step
from alfish.algorithms.updater import Updater
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.seeding import Seeds
from alfish.types import Experience, LossInfo, Nest, StepType, TimeStep, record, replace

if TYPE_CHECKING:
    from alfish.algorithms.rl_algorithm import RLAlgorithm


@record
class Sequences:
    """`N` sequences of `L` trained steps."""

    time_step: TimeStep  # [L, N, ...]
    rollout_info: Nest  # [L, N, ...]
    weight: torch.Tensor  # [L, N], 1 where the action counts
    state: Nest  # [N, ...], before the first step; () to start from zeros

    @property
    def number(self) -> int:
        """N."""
        return self.weight.shape[1]


class OnPolicyLoop:
    """Trains on every action of an unroll exactly `num_updates_per_train_iter` times.

    The unroll is cut into sequences, and each pass goes through all of them in shuffled mini batches. An algorithm
    with `single_update` makes one update over the whole unroll instead.
    """

    def __init__(
        self, algorithm: RLAlgorithm, config: TrainerConfig, updater: Updater, seeds: Seeds, env: Environment
    ) -> None:
        self.updater = updater
        self._algorithm = algorithm
        self._config = config
        self._precision = Precision.of(config)
        self._num_environments = env.batch_size
        self._shuffle = seeds.torch("shuffle")
        self._check_options()
        self._update_step = make_update_step(algorithm, config, updater, self._loss, env.batch_size)

    @property
    def compilation(self) -> str:
        """What came of `TrainerConfig.compile`."""
        return self._update_step.compilation

    @property
    def is_compiled(self) -> bool:
        return self._update_step.is_compiled

    def train(self, unrolled: Unrolled | None) -> None:
        if unrolled is None:
            return
        experience, algorithm, config = unrolled.experience, self._algorithm, self._config
        if config.unroll_with_grad:
            self._update_through_unroll(experience)
            return
        with torch.no_grad(), self._precision.autocast():
            prepared = algorithm.preprocess_experience(experience)
        if algorithm.single_update:
            sequences = cut(prepared, prepared.length, use_state=True)
            with torch.no_grad():
                info = algorithm.preprocess_pass(sequences.rollout_info, [sequences.number])
            self._update(replace(sequences, rollout_info=info))
            return
        sequences = cut(prepared, config.mini_batch_length or prepared.length, config.use_rollout_state)
        for _ in range(config.num_updates_per_train_iter):
            for mini_batch in self._mini_batches(sequences):
                if not self._update(mini_batch):
                    return

    def _update(self, batch: Sequences) -> bool:
        """One optimizer step; whether more are wanted."""
        algorithm = self._algorithm
        loss_info, _ = self._update_step(batch)
        algorithm.after_update()
        return self.updater.ranks.all(algorithm.wants_more_updates(loss_info))

    def _loss(self, batch: Sequences) -> tuple[LossInfo, torch.Tensor]:
        algorithm = self._algorithm
        with self._precision.autocast():
            info = algorithm.train_steps(batch.time_step, batch.state, batch.rollout_info)
            return self._precision.kept(algorithm.calc_loss(info)), batch.weight

    def _update_through_unroll(self, experience: Experience) -> None:
        """The infos of the unroll carry its graph, so nothing is computed again."""
        with self._precision.autocast():
            prepared = self._algorithm.preprocess_experience(experience)
            with torch.no_grad():
                info = self._algorithm.preprocess_pass(prepared.rollout_info, [experience.time_step.step_type.shape[1]])
            loss_info = self._precision.kept(self._algorithm.calc_loss(info))
        self.updater.update(loss_info, counts(nest.map(lambda leaf: leaf[:-1], experience.time_step)), prepared)
        self._algorithm.after_update()

    def _mini_batches(self, sequences: Sequences) -> Iterator[Sequences]:
        total = sequences.number
        size = total if self._config.mini_batch_size == "whole" else self._config.mini_batch_size
        order = torch.randperm(total, generator=self._shuffle).to(sequences.time_step.step_type.device)
        sizes = [rows.stop - rows.start for rows in split_evenly(total, size or self._num_environments)]
        # One gather per pass; the mini batches are views.
        by_sequence = (sequences.time_step, sequences.rollout_info, sequences.weight)
        time_step, info, weight = nest.map(lambda leaf: leaf.index_select(1, order), by_sequence)
        with torch.no_grad():
            info = self._algorithm.preprocess_pass(info, sizes)
        states = nest.split(nest.map(lambda leaf: leaf.index_select(0, order), sequences.state), sizes, dim=0)
        mini_batches = nest.split((time_step, info, weight), sizes, dim=1)
        for (time_step, info, weight), state in zip(mini_batches, states, strict=True):
            yield Sequences(time_step, info, weight, state)

    def _check_options(self) -> None:
        algorithm, config = self._algorithm, self._config
        name = type(algorithm).__name__
        length = config.mini_batch_length
        if not config.whole_replay_buffer_training or not config.clear_replay_buffer:
            raise ConfigError(
                f"{name} is on-policy: it learns from the newest unroll only. Leave "
                "TrainerConfig.whole_replay_buffer_training and clear_replay_buffer at True."
            )
        if config.priority_replay or config.num_updates_per_env_step is not None:
            raise ConfigError(f"{name} is on-policy: priority_replay and num_updates_per_env_step need replay")
        if config.initial_collect_steps:
            raise ConfigError(f"TrainerConfig.initial_collect_steps: {name} is on-policy and has no replay to fill")
        if config.unroll_with_grad and not algorithm.single_update:
            raise ConfigError(
                f"TrainerConfig.unroll_with_grad = True: {name} makes several updates per unroll, and the graph of "
                "the unroll serves only one. Use False."
            )
        if config.unroll_episodes is not None and length not in (None, 1):
            raise ConfigError(
                f"TrainerConfig.mini_batch_length = {length}: episodes have any length, so only 1 or None fits all"
            )
        algorithm.data_transformer.check_use(on_policy=True, sequence_length=length or 0)
        if config.unroll_episodes is None and length and config.unroll_length % length:
            raise ConfigError(
                f"TrainerConfig.mini_batch_length = {length} does not divide unroll_length = {config.unroll_length}: "
                "some actions would never be trained on. Use a divisor, or None for whole unrolls."
            )

    def state_dict(self) -> dict[str, Any]:
        return {"shuffle": self._shuffle.get_state(), "updater": self.updater.state_dict()}

    def load_state_dict(self, state: dict[str, Any], first: TimeStep | None) -> None:
        self._shuffle.set_state(state["shuffle"])
        self.updater.load_state_dict(state["updater"])


def cut(experience: Experience, length: int, use_state: bool) -> Sequences:
    """`T` steps of `B` environments as sequences of `length`, which divides `T`: `N = T / length * B`."""

    def fold(leaf: torch.Tensor) -> torch.Tensor:
        pieces = leaf.reshape(-1, length, *leaf.shape[1:])  # [T / L, L, B, ...]
        return pieces.transpose(0, 1).flatten(1, 2)

    time_step = nest.map(lambda leaf: fold(leaf[:-1]), experience.time_step)
    state = nest.map(lambda leaf: leaf[::length].flatten(0, 1), experience.state) if use_state else ()
    return Sequences(time_step, nest.map(fold, experience.rollout_info), counts(time_step), state)


def split_evenly(total: int, size: int) -> Iterator[slice]:
    """Slices of at least `size`, as equal as can be, so that no small remainder is left: 264 by 32 is 8 of 33."""
    number = max(1, total // size)
    start = 0
    for index in range(number):
        stop = total * (index + 1) // number
        yield slice(start, stop)
        start = stop


def counts(time_step: TimeStep) -> torch.Tensor:
    """1 where the action counts, 0 at LAST, where the environment ignores it."""
    return (time_step.step_type != StepType.LAST).float()
