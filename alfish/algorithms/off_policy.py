"""The off-policy loop: store what was unrolled, learn from what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from alfish import nest
from alfish.algorithms.on_policy import counts, split_evenly
from alfish.algorithms.trainer_config import TrainerConfig
from alfish.algorithms.updater import Updater
from alfish.environments.environment import Environment
from alfish.errors import ConfigError
from alfish.replay.replay_buffer import ReplayBuffer
from alfish.seeding import Seeds
from alfish.types import Experience, replace

if TYPE_CHECKING:
    from alfish.algorithms.rl_algorithm import RLAlgorithm


class OffPolicyLoop:
    """Makes `num_updates_per_train_iter` updates on sampled sequences, each on a fresh draw.

    With `whole_replay_buffer_training` it makes as many shuffled passes over everything stored instead, and with
    `clear_replay_buffer` the buffer is emptied after them.
    """

    def __init__(
        self, algorithm: RLAlgorithm, config: TrainerConfig, updater: Updater, seeds: Seeds, env: Environment
    ) -> None:
        self.updater = updater
        self._algorithm = algorithm
        self._config = config
        self._num_environments = env.batch_size
        self._length = _sequence_length(algorithm, config)
        self._shuffle = seeds.torch("shuffle")
        self.replay = ReplayBuffer(env.batch_size, config.replay_buffer_length, seeds.torch("replay"), config.device)
        if config.unroll_with_grad:
            raise ConfigError(
                f"TrainerConfig.unroll_with_grad = True: {type(algorithm).__name__} learns from replay, "
                "which keeps no graph. Use False."
            )
        if config.initial_collect_steps > config.replay_buffer_length * env.batch_size:
            raise ConfigError(
                f"TrainerConfig.initial_collect_steps = {config.initial_collect_steps} is more than the buffer can "
                f"hold: replay_buffer_length = {config.replay_buffer_length} times {env.batch_size} environments"
            )
        if self._length > config.replay_buffer_length:
            raise ConfigError(
                f"TrainerConfig.replay_buffer_length = {config.replay_buffer_length} never holds a sequence of "
                f"{self._length} time steps, so nothing would be learned. Use {self._length} or more."
            )

    def train(self, experience: Experience | None) -> None:
        if experience is not None:
            self.replay.add(experience)
        if self._algorithm.progress.env_steps < self._config.initial_collect_steps:
            return
        if not self.replay.has_sequences(self._length):
            return
        for batch in self._batches():
            algorithm = self._algorithm
            if not self._config.use_rollout_state:
                batch = replace(batch, state=())
            with torch.no_grad():
                batch = algorithm.preprocess_experience(batch)
            loss_info = algorithm.compute_loss(batch)
            self.updater.update(loss_info, counts(nest.map(lambda leaf: leaf[:-1], batch.time_step)), batch)
            algorithm.after_update()
            if not algorithm.wants_more_updates(loss_info):
                break
        if self._config.whole_replay_buffer_training and self._config.clear_replay_buffer:
            self.replay.clear()

    def _batches(self) -> Iterator[Experience]:
        config, size = self._config, self._config.mini_batch_size or self._num_environments
        for _ in range(config.num_updates_per_train_iter):
            if not config.whole_replay_buffer_training:
                assert isinstance(size, int)
                yield self.replay.sample(size, self._length)
                continue
            envs, starts = self.replay.all_sequences(self._length)
            order = torch.randperm(len(envs), generator=self._shuffle)
            for rows in split_evenly(len(order), len(order) if size == "whole" else size):
                yield self.replay.get(envs[order[rows]], starts[order[rows]], self._length)

    def state_dict(self) -> dict[str, Any]:
        return {"shuffle": self._shuffle.get_state(), "updater": self.updater.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The replay is not in the state: it fills anew."""
        self._shuffle.set_state(state["shuffle"])
        self.updater.load_state_dict(state["updater"])


def _sequence_length(algorithm: RLAlgorithm, config: TrainerConfig) -> int:
    """In time steps. Whole-buffer training counts actions, of which a sequence has one fewer."""
    if config.mini_batch_length is None:
        return algorithm.sequence_length
    return config.mini_batch_length + config.whole_replay_buffer_training
