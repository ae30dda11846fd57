"""The off-policy loop: store what was unrolled, learn from what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from alfish import nest
from alfish.algorithms.carry import Carry
from alfish.algorithms.on_policy import counts, split_evenly
from alfish.algorithms.precision import Precision
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.unroller import Unrolled
from alfish.algorithms.update_step import make_update_step
from alfish.algorithms.updater import Updater
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.optimizers.schedulers import as_scheduler
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.seeding import Seeds
from alfish.specs import TensorSpec
from alfish.types import BatchInfo, Experience, LossInfo, Nest, StepType, TimeStep, replace

if TYPE_CHECKING:
    from alfish.algorithms.rl_algorithm import RLAlgorithm


@dataclass(frozen=True)
class Judged:
    """Sequences from a replay buffer and what is to be minimised for them."""

    loss: LossInfo
    valid: torch.Tensor  # [T, B], 1 where the action counts
    batch: Experience  # as the networks saw it
    sampled: BatchInfo  # where it comes from
    replay: ReplayBuffer


class OffPolicyLoop:
    """Makes `num_updates_per_train_iter` updates on sampled sequences, each on a fresh draw.

    With `num_updates_per_env_step` their number follows what was collected. With `whole_replay_buffer_training` it
    makes as many shuffled passes over everything stored instead, and with `clear_replay_buffer` the buffer is emptied
    after them.
    """

    def __init__(
        self, algorithm: RLAlgorithm, config: TrainerConfig, updater: Updater, seeds: Seeds, env: Environment
    ) -> None:
        self.updater = updater
        self._algorithm = algorithm
        self._config = config
        self._precision = Precision.of(config)
        self._num_environments = env.batch_size
        self._length = _sequence_length(algorithm, config)
        self._num_earlier = algorithm.data_transformer.num_earlier_steps
        self._check_options()
        self._update_step = make_update_step(algorithm, config, updater, self._loss, env.batch_size)
        self._shuffle = seeds.torch("shuffle")
        self.replay = ReplayBuffer(
            env.batch_size,
            config.replay_buffer_length,
            seeds.torch("replay"),
            config.device,
            prioritized=config.priority_replay,
            num_earliest_frames_ignored=self._num_earlier,
        )
        self.replay_nbytes = self.replay.needed(_row(algorithm, env))
        self._alpha = as_scheduler(config.priority_replay_alpha)
        self._beta = as_scheduler(config.priority_replay_beta)
        self._update_carry = Carry()
        self._env_steps = 0  # that updates were made for
        self._lost_steps = 0  # of what they brought, a resumed run without its replay has nothing

    @property
    def compilation(self) -> str:
        """What came of `TrainerConfig.compile`."""
        return self._update_step.compilation

    @property
    def is_compiled(self) -> bool:
        return self._update_step.is_compiled

    def train(self, unrolled: Unrolled | None) -> None:
        collected = self._store(unrolled)
        if self._has_enough():
            for batch in self._batches(self._num_updates(collected)):
                if not self._update(batch):
                    break
            self._clear()

    def _store(self, unrolled: Unrolled | None) -> int:
        """Keeps what was unrolled; how many environment steps came since the last time."""
        if unrolled is not None:
            unrolled.store(self.replay)
        env_steps = self._algorithm.progress.env_steps
        collected, self._env_steps = env_steps - self._env_steps, env_steps
        return collected

    def _has_enough(self) -> bool:
        """Whether the initial collection is over and there is something to draw."""
        kept = self._env_steps - self._lost_steps
        has_enough = kept >= self._config.initial_collect_steps and self.replay.has_sequences(self._length)
        return self.updater.ranks.all(has_enough)

    def _clear(self) -> None:
        if self._config.whole_replay_buffer_training and self._config.clear_replay_buffer:
            self.replay.clear()

    def _update(self, batch: Experience) -> bool:
        """One optimizer step; whether more are wanted."""
        prepared = self._prepare(batch, self.replay)
        loss_info, was_made = self._update_step(prepared)
        if was_made:
            self._reprioritize(prepared.batch_info, loss_info, self.replay)
        self._algorithm.after_update()
        return self.updater.ranks.all(self._algorithm.wants_more_updates(loss_info))

    def _prepare(self, batch: Experience, replay: ReplayBuffer) -> Experience:
        """Sequences that were drawn from `replay`, as the networks see them."""
        algorithm, sampled = self._algorithm, batch.batch_info
        if not self._config.use_rollout_state and not _is_absent(batch.state):
            batch = replace(batch, state=())
        with torch.set_grad_enabled(False):  # half the time of `no_grad`
            batch = algorithm.data_transformer.transform_experience(batch, replay)
            with self._precision.autocast():
                batch = algorithm.preprocess_experience(batch)
        return batch if batch.batch_info is sampled else replace(batch, batch_info=sampled)

    def _loss(self, batch: Experience) -> tuple[LossInfo, torch.Tensor]:
        """Of prepared sequences, and 1 `[T, B]` where the action counts."""
        with self._precision.autocast():
            loss_info = self._precision.kept(self._algorithm.compute_loss(batch))
        return _weighted(loss_info, batch.batch_info), counts(batch.time_step)[:-1]

    def _reprioritize(self, sampled: BatchInfo, loss_info: LossInfo, replay: ReplayBuffer) -> None:
        """The priorities that an update gives count from the next draw on."""
        if self._config.priority_replay:
            alpha, eps = self._alpha(self._algorithm.progress), self._config.priority_replay_eps
            replay.update_priorities(sampled, loss_info.priority.detach(), alpha, eps)

    def _num_updates(self, collected: int) -> int:
        ratio = self._config.num_updates_per_env_step
        return self._config.num_updates_per_train_iter if ratio is None else self._update_carry.take(ratio * collected)

    def _batches(self, number: int) -> Iterator[Experience]:
        config, size = self._config, self._config.mini_batch_size or self._num_environments
        for _ in range(number):
            if not config.whole_replay_buffer_training:
                yield self._sample(self.replay)
                continue
            envs, starts = self.replay.all_sequences(self._length)
            order = torch.randperm(len(envs), generator=self._shuffle)
            for rows in split_evenly(len(order), len(order) if size == "whole" else size):
                yield self.replay.get(envs[order[rows]], starts[order[rows]], self._length)

    def _sample(self, replay: ReplayBuffer) -> Experience:
        config, size = self._config, self._config.mini_batch_size or self._num_environments
        assert isinstance(size, int)  # 'whole' is for whole-buffer training
        if not config.priority_replay:
            return replay.sample(size, self._length, reuse=self.is_compiled)
        beta = self._beta(self._algorithm.progress)
        by_max = config.normalize_importance_weights_by_max
        return replay.sample(size, self._length, beta, by_max, reuse=self.is_compiled)

    def _check_options(self) -> None:
        algorithm, config = self._algorithm, self._config
        name, capacity = type(algorithm).__name__, config.replay_buffer_length
        if config.unroll_with_grad:
            raise ConfigError(
                f"TrainerConfig.unroll_with_grad = True: {name} learns from replay, which keeps no graph. Use False."
            )
        if config.priority_replay and not algorithm.provides_priority:
            raise ConfigError(f"TrainerConfig.priority_replay = True: {name} gives no priorities. Use False.")
        if config.initial_collect_steps > capacity * self._num_environments:
            raise ConfigError(
                f"TrainerConfig.initial_collect_steps = {config.initial_collect_steps} is more than the buffer can "
                f"hold: replay_buffer_length = {capacity} times {self._num_environments} environments"
            )
        needed = self._length + self._num_earlier
        if needed > capacity:
            raise ConfigError(
                f"TrainerConfig.replay_buffer_length = {capacity} never holds a sequence of {needed} time "
                f"steps, so nothing would be learned. Use {needed} or more."
            )
        algorithm.data_transformer.check_use(on_policy=False, sequence_length=self._length)

    def state_dict(self) -> dict[str, Any]:
        return {
            "shuffle": self._shuffle.get_state(),
            "updater": self.updater.state_dict(),
            "update_carry": self._update_carry.rest,
            "env_steps": self._env_steps,
        }

    def load_state_dict(self, state: dict[str, Any], first: TimeStep | None) -> None:
        """The replay is apart, see `load_replay`; without it, it fills anew, and training waits for it to.

        Args:
            state: what `state_dict` gave.
            first: where new episodes begin; None: those of then go on.
        """
        self._shuffle.set_state(state["shuffle"])
        self.updater.load_state_dict(state["updater"])
        self._update_carry.rest = state["update_carry"]
        self._env_steps = state["env_steps"]
        self._first = first
        self._lost_steps = self._env_steps

    def load_replay(self, state: dict[str, Any]) -> None:
        """Takes over what was stored. Where new episodes begin, those of then are broken off."""
        self.replay.load_state_dict(state)
        self._lost_steps = 0
        filled = (self.replay.newest >= 0).nonzero().squeeze(-1)  # of more environments than then, some have nothing
        if self._first is None or not len(filled):
            return
        stored = self.replay.get(filled, self.replay.newest[filled], 1)
        last = replace(stored.time_step, step_type=torch.full_like(stored.time_step.step_type, StepType.LAST))
        first = nest.map(lambda leaf: leaf[filled].unsqueeze(0), self._first)
        no_action = nest.map(
            lambda leaf: leaf.new_zeros(1, *leaf.shape[1:]), (stored.action, stored.rollout_info, stored.state)
        )
        self.replay.add(Experience(nest.concat([last, first]), *no_action), filled)


def _is_absent(part: Nest) -> bool:
    return isinstance(part, tuple) and not part


def _weighted(loss_info: LossInfo, sampled: BatchInfo) -> LossInfo:
    """The loss of every sequence times its importance weight, where there are any."""
    weights = sampled.importance_weights
    return loss_info if isinstance(weights, tuple) else replace(loss_info, loss=loss_info.loss * weights)


def _row(algorithm: RLAlgorithm, env: Environment) -> Experience:
    """Specs of a stored row, but for what `rollout_step` gives as info, which only a step would tell."""
    specs: dict[str, Any] = {
        "step_type": TensorSpec((), torch.int32),
        "reward": env.reward_spec,
        "discount": TensorSpec(()),
        "observation": env.observation_spec,
        "prev_action": env.action_spec,
        "env_id": TensorSpec((), torch.int64),
        "env_info": env.env_info_spec,
    }
    time_step = TimeStep(**specs)
    return Experience(time_step, env.action_spec, state=algorithm.rollout_state_spec)


def _sequence_length(algorithm: RLAlgorithm, config: TrainerConfig) -> int:
    """In time steps. Whole-buffer training counts actions, of which a sequence has one fewer."""
    if config.mini_batch_length is None:
        return algorithm.sequence_length
    return config.mini_batch_length + config.whole_replay_buffer_training
